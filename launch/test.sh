#!/usr/bin/env bash
# Installs what the tests need and runs them.
#
#   bash launch/test.sh                        everything
#   bash launch/test.sh tests/analysis -x      any arguments of pytest; paths start at the repository
#   EXTRAS=parity,browser bash launch/test.sh  with more extras, so that fewer tests skip
#
# MLM_CONSISTENCY_DATA=FOLDER switches on the tests that read the real benchmarks.
set -euo pipefail

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment "test${EXTRAS:+,$EXTRAS}"

cd "$ROOT"
exec "$VENV/bin/python" -m pytest "$@"
