#!/usr/bin/env bash
# What every worker of a run does, whoever starts it: make the environment, then score.
#
#   bash launch/run_worker.sh [--dry_run] [--install_only] ARGUMENTS of `mlm-consistency score`
#
# Read from the environment:
#   PLATFORM         cpu, tpu or cuda; by default what the machine has. JAX is held to it, so that a
#                    worker whose accelerator does not come up fails instead of scoring on its CPU.
#   EXTRAS           more extras of pyproject.toml
#   SKIP_INSTALL=1   the package is installed already (a container image, a shared file system)
#   WORKER_PID_FILE  where to note this worker's process; one that is still running from an earlier
#                    start is ended first, since it would hold the accelerator
#
# The exit status is that of `mlm-consistency score`: 0 complete, 2 a mistake in the configuration
# or the data, 75 preempted: start again, the run goes on after its last whole shard.
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck disable=SC2034  # read by commands.sh
LAUNCHER=run_worker
# shellcheck source=launch/commands.sh
source "$HERE/commands.sh"

INSTALL_ONLY=""
while [ "$#" -gt 0 ]; do
  case "$1" in
    --help) manual "$0"; exit 0 ;;
    --dry_run) DRY_RUN=1 ;;
    --install_only) INSTALL_ONLY=1 ;;
    --) shift; break ;;
    *) break ;;
  esac
  shift
done

if [ -z "${PLATFORM:-}" ]; then
  if [ -e /dev/accel0 ] || [ -e /dev/vfio/0 ]; then
    PLATFORM=tpu
  elif [ -e /dev/nvidiactl ]; then
    PLATFORM=cuda
  else
    PLATFORM=cpu
  fi
  say "PLATFORM is not set; this machine looks like $PLATFORM"
fi
case "$PLATFORM" in
  cpu) platform_extra="" ; JAX_PLATFORMS=cpu ;;
  tpu) platform_extra=tpu ; JAX_PLATFORMS=tpu,cpu ;;
  cuda) platform_extra=cuda ; JAX_PLATFORMS=cuda,cpu ;;
  *) stop "PLATFORM=$PLATFORM is unknown; cpu, tpu or cuda" ;;
esac
export JAX_PLATFORMS
extras="$platform_extra${EXTRAS:+,$EXTRAS}"
extras="${extras#,}"

program=mlm-consistency
if [ -z "${SKIP_INSTALL:-}" ]; then
  # shellcheck source=launch/environment.sh
  source "$HERE/environment.sh"
  perform prepare_environment "$extras"
  program="$VENV/bin/mlm-consistency"
fi
[ -z "$INSTALL_ONLY" ] || exit 0
[ "$#" -gt 0 ] || stop "nothing to score: give --gin_file=FILE and the bindings that it needs"

end_earlier_worker() {
  local pid
  pid="$(cat "$WORKER_PID_FILE" 2>/dev/null || true)"
  case "$pid" in "" | *[!0-9]*) return 0 ;; esac
  # The number may belong to another program by now.
  ps -p "$pid" -o args= 2>/dev/null | grep -q mlm-consistency || return 0
  say "ending process $pid of an earlier start"
  kill -TERM "$pid" 2>/dev/null || return 0
  for _ in $(seq 60); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 1
  done
  kill -KILL "$pid" 2>/dev/null || true
}

if [ -n "${WORKER_PID_FILE:-}" ] && [ -z "$DRY_RUN" ]; then
  end_earlier_worker
  echo "$$" >"$WORKER_PID_FILE"
fi

cd "$HERE/.."
# exec, so that SIGTERM reaches the scoring process itself, also as process 1 of a container.
perform exec "$program" score "$@"
