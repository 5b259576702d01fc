#!/usr/bin/env bash
# The main job on this machine, from nothing: environment, scores, analysis, report.
#
#   bash launch/local.sh                                   the shipped model on the shipped stories
#   bash launch/local.sh --gin.OUTPUT_DIR="'runs/mine'"    the same, with another binding
#
# Every argument goes to `mlm-consistency run`; a later --gin_file overrides the first. Relative
# paths start at the repository. launch/environment.sh says what VENV, PYTHON and JAX_PLATFORMS do.
set -euo pipefail

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
prepare_environment "${EXTRAS:-}"

cd "$ROOT"
exec "$VENV/bin/mlm-consistency" run --gin_file=gin/runs/tiny_stories.gin "$@"
