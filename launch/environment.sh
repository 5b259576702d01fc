# shellcheck shell=bash
# Sourced, not run: makes the environment in which every other script of this folder works.
#
#   source launch/environment.sh
#   prepare_environment test,lint      # extras of pyproject.toml, separated by commas; may be empty
#
# Afterwards "$VENV/bin/python" has the package (editable) with these extras, at the versions of
# constraints.txt. A second call costs a fraction of a second: a stamp in the environment holds a
# checksum of pyproject.toml, constraints.txt and the place of the repository, and the extras.
#
# Read from the environment:
#   PYTHON   the interpreter to build on; by default the first fit one of python3.13, python3.12,
#            python3.11, python3
#   VENV     where the environment lives; by default .venv in the repository
# Set unless they are set already: JAX_PLATFORMS=cpu (no accelerator is taken by accident) and
# TF_CPP_MIN_LOG_LEVEL=3.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/commands.sh
source "$ROOT/launch/commands.sh"
VENV="${VENV:-$ROOT/.venv}"
case "$VENV" in
  /*) ;;
  *) VENV="$PWD/$VENV" ;;
esac
export JAX_PLATFORMS="${JAX_PLATFORMS-cpu}"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL-3}"

PYTHON_PROBE='
import sys
version = "%d.%d" % sys.version_info[:2]
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    print("is version " + version)
else:
    try:
        import ensurepip, venv
        print("fit")
    except ImportError:
        print("lacks venv (Debian and Ubuntu: apt-get install python%s-venv)" % version)
'

# Prints nothing where the interpreter $1 will do; otherwise why it will not. It is run, not only
# looked up: a version manager's shim can exist for a version that it then refuses to start.
python_fault() {
  local answer
  command -v "$1" >/dev/null 2>&1 || {
    echo "not found"
    return
  }
  # The last line alone: an interpreter's start-up files may print before it.
  answer="$("$1" -c "$PYTHON_PROBE" 2>/dev/null </dev/null | tail -n 1)" || answer=""
  case "$answer" in
    fit) ;;
    "") echo "does not start" ;;
    *) echo "$answer" ;;
  esac
}

# Sets FOUND_PYTHON, or stops with what was tried and why each was no good.
find_python() {
  local candidate fault tried=""
  if [ -n "${PYTHON:-}" ]; then
    fault="$(python_fault "$PYTHON")"
    [ -z "$fault" ] || stop "PYTHON=$PYTHON: $fault; Python 3.11, 3.12 or 3.13 is needed. Unset PYTHON to search for one."
    FOUND_PYTHON="$PYTHON"
    return
  fi
  for candidate in python3.13 python3.12 python3.11 python3; do
    fault="$(python_fault "$candidate")"
    if [ -z "$fault" ]; then
      FOUND_PYTHON="$candidate"
      return
    fi
    tried="$tried
  $candidate: $fault"
  done
  stop "no fit Python was found; 3.11, 3.12 or 3.13 is needed (TensorFlow Text has no later wheels). Tried:$tried
Install one, or name it: PYTHON=/path/to/python3.11 bash launch/local.sh"
}

# A dot every five seconds on standard error until it is killed or this script is gone, so that a
# long install in a log is seen to live.
heartbeat() {
  # Killing this loop leaves its sleep behind, which must hold neither the lock nor the caller's pipe.
  while sleep 5 >/dev/null 2>&1 9<&- && kill -0 "$$" 2>/dev/null; do printf '.' >&2; done
}

# Runs "$@" quietly with a heartbeat; on failure shows the end of its output and stops.
quietly() {
  local what="$1" log="$VENV/install.log" pulse code=0
  shift
  printf 'mlm-consistency: %s ' "$what" >&2
  heartbeat &
  pulse=$!
  "$@" >"$log" 2>&1 </dev/null || code=$?
  kill "$pulse" 2>/dev/null || true
  wait "$pulse" 2>/dev/null || true
  if [ "$code" -ne 0 ]; then
    printf ' failed\n' >&2
    tail -n 25 "$log" >&2
    stop "$what failed with status $code; the whole output is in $log"
  fi
  printf ' done\n' >&2
}

environment_works() {
  "$VENV/bin/python" -c 'import pip, sys; sys.exit(sys.version_info[:2] < (3, 11))' >/dev/null 2>&1
}

make_environment() {
  # A half-made or moved environment is made anew; any other folder with something in it is not
  # ours to clear.
  if [ -n "$(ls -A "$VENV")" ] && [ ! -e "$VENV/pyvenv.cfg" ]; then
    stop "VENV=$VENV is a folder with other files in it; name an empty or a new one."
  fi
  find_python
  quietly "making an environment with $FOUND_PYTHON in $VENV" \
    "$FOUND_PYTHON" -m venv --clear "$VENV"
}

prepare_environment() {
  local wanted="${1:-}" stamp="$VENV/mlm_consistency.stamp" checksum have="" extra extras=""
  mkdir -p "$VENV" || stop "VENV=$VENV cannot be made"
  # Two launches at once share one installation. Without flock (macOS) they are on their own.
  exec 9<"$VENV"
  flock 9 2>/dev/null || true

  checksum="$({
    printf '%s\n' "$ROOT"
    cat "$ROOT/pyproject.toml" "$ROOT/constraints.txt"
  } | cksum)"
  if [ -f "$stamp" ]; then have="$(tail -n +2 "$stamp")"; fi

  # The extras that are there stay, at the new versions, when the project file changes.
  for extra in $(printf '%s %s' "$have" "$wanted" | tr ',' ' '); do
    case ",$extras," in
      *",$extra,"*) ;;
      *) extras="${extras:+$extras,}$extra" ;;
    esac
  done

  if environment_works; then
    if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$checksum" ] && [ "$extras" = "$have" ]; then
      exec 9<&-
      return 0
    fi
  else
    make_environment
  fi
  rm -f "$stamp"
  quietly "installing${extras:+ with $extras} (minutes the first time)" \
    "$VENV/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
    -c "$ROOT/constraints.txt" -e "$ROOT${extras:+[$extras]}"
  # Written last and moved into place: an install that was interrupted is begun again.
  printf '%s\n%s\n' "$checksum" "$extras" >"$stamp.new"
  mv "$stamp.new" "$stamp"
  exec 9<&-
}
