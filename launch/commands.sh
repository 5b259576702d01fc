# shellcheck shell=bash
# Sourced by the other scripts: how they speak, show the commands they run, and hold back in a dry
# run. Works in bash 3.2 too, which macOS still ships.

LAUNCHER="${LAUNCHER:-mlm-consistency}"
DRY_RUN="${DRY_RUN:-}"

say() { printf '%s: %s\n' "$LAUNCHER" "$*" >&2; }

stop() {
  say "$*"
  exit 2
}

# The comment block at the head of script $1 is its manual.
manual() { awk 'NR == 1 || /^#SBATCH/ { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$1"; }

# "$@" as one line that a shell reads back as the same words.
quoted() {
  local word line=""
  for word in "$@"; do
    case "$word" in
      "" | *[!A-Za-z0-9_./:=,@%+-]*)
        word="'$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'"
        ;;
    esac
    line="${line:+$line }$word"
  done
  printf '%s' "$line"
}

# Shows a command and runs it; a dry run only shows it, on standard output.
perform() {
  if [ -n "$DRY_RUN" ]; then
    quoted "$@"
    echo
  else
    say "+ $(quoted "$@")"
    "$@"
  fi
}

# need FLAG VALUE HINT: stops where a required flag has no value.
need() { [ -n "$2" ] || stop "--$1 is missing: $3"; }

# need_program NAME WHERE: stops where a program is not installed; a dry run does without.
need_program() {
  [ -n "$DRY_RUN" ] || command -v "$1" >/dev/null 2>&1 || stop "$1 is not on the PATH; $2"
}
