#!/usr/bin/env bash
# One run on Cloud TPU: ask for a slice, wait, install, score on all workers, fetch, delete.
#
#   bash launch/tpu_queued_resource.sh --project=P --zone=Z --accelerator_type=v5litepod-16 \
#     --output_dir=gs://BUCKET/runs/ul2_mmlu [flags] -- --gin_file=gin/runs/ul2_20b_mmlu.gin \
#     --gin_file=gin/hardware/v5e_16.gin [more arguments of `mlm-consistency score`]
#
#   --project           by default $CLOUDSDK_CORE_PROJECT
#   --zone              by default $CLOUDSDK_COMPUTE_ZONE
#   --accelerator_type  as Cloud TPU names it: v4-8, v5litepod-16, v5p-8, v6e-8
#   --output_dir        gs:// folder of the run; it outlives the slice and is what a restart reads
#   --name              of the queued resource and its node (mlm-consistency)
#   --provisioning      spot (default), on_demand or reserved
#   --runtime_version   of the TPU software; by default the one for the accelerator's generation
#   --fetch_to          where results are copied on this machine (runs/NAME)
#   --create_flag       one more flag for the create command; may be repeated
#   --max_restarts      after preemption or a lost connection (20)
#   --poll_seconds      between looks at the resource's state (30)
#   --keep              leave the slice running at the end
#   --dry_run           print every command, run none
#
# The slice is deleted however this script ends, unless --keep is given. It exits with the status of
# the run; 75 means that restarts are used up, and that the same command goes on with the run.
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck disable=SC2034  # read by commands.sh
LAUNCHER=tpu_queued_resource
# shellcheck source=launch/commands.sh
source "$HERE/commands.sh"

PREEMPTED=75
project="${CLOUDSDK_CORE_PROJECT:-}"
zone="${CLOUDSDK_COMPUTE_ZONE:-}"
accelerator_type="" output_dir="" name=mlm-consistency provisioning=spot runtime_version=""
fetch_to="" max_restarts=20 poll_seconds=30 keep=""
create_flags=()

while [ "$#" -gt 0 ]; do
  case "$1" in
    --help) manual "$0"; exit 0 ;;
    --project=*) project="${1#*=}" ;;
    --zone=*) zone="${1#*=}" ;;
    --accelerator_type=*) accelerator_type="${1#*=}" ;;
    --output_dir=*) output_dir="${1#*=}" ;;
    --name=*) name="${1#*=}" ;;
    --provisioning=*) provisioning="${1#*=}" ;;
    --runtime_version=*) runtime_version="${1#*=}" ;;
    --fetch_to=*) fetch_to="${1#*=}" ;;
    --create_flag=*) create_flags+=("${1#*=}") ;;
    --max_restarts=*) max_restarts="${1#*=}" ;;
    --poll_seconds=*) poll_seconds="${1#*=}" ;;
    --keep) keep=1 ;;
    --dry_run) DRY_RUN=1 ;;
    --) shift; break ;;
    *) stop "unknown argument $1; arguments of the run itself come after --. See --help." ;;
  esac
  shift
done

need project "$project" "the Google Cloud project (or set CLOUDSDK_CORE_PROJECT)"
need zone "$zone" "the zone with the TPUs, us-west4-a say (or set CLOUDSDK_COMPUTE_ZONE)"
need accelerator_type "$accelerator_type" "v5litepod-16, say"
need output_dir "$output_dir" "a gs:// folder, which every worker writes its shards to"
case "$output_dir" in
  gs://?*) ;;
  *) stop "--output_dir=$output_dir is not a gs:// address; the disks of a slice go with it" ;;
esac
[ "$#" -gt 0 ] || stop "nothing to score: give -- --gin_file=FILE at the end"
case "$provisioning" in
  spot) create_flags+=(--spot) ;;
  reserved) create_flags+=(--reserved) ;;
  on_demand) ;;
  *) stop "--provisioning=$provisioning is unknown; spot, on_demand or reserved" ;;
esac
if [ -z "$runtime_version" ]; then
  case "$accelerator_type" in
    v2-* | v3-* | v4-*) runtime_version=tpu-ubuntu2204-base ;;
    v5litepod-*) runtime_version=v2-alpha-tpuv5-lite ;;
    v5p-*) runtime_version=v2-alpha-tpuv5 ;;
    v6e-*) runtime_version=v2-alpha-tpuv6e ;;
    *) stop "no default software version for --accelerator_type=$accelerator_type; give --runtime_version" ;;
  esac
fi
fetch_to="${fetch_to:-runs/$name}"
need_program gcloud "install the Google Cloud CLI"

where=(--project="$project" --zone="$zone")
# Without these a connection to a preempted worker can hang for a quarter of an hour.
alive=(--ssh-flag=-oServerAliveInterval=30 --ssh-flag=-oServerAliveCountMax=4)
scratch="$(mktemp -d)"
created="" child=""

resource_state() {
  gcloud compute tpus queued-resources describe "$name" "${where[@]}" \
    --format='value(state.state)' 2>/dev/null || true
}

delete_resource() {
  local try
  for try in 1 2 3; do
    if perform gcloud compute tpus queued-resources delete "$name" "${where[@]}" --force --quiet; then
      created=""
      return 0
    fi
    say "deleting failed (try $try of 3)"
    sleep "$poll_seconds"
  done
  say "THE SLICE MAY STILL BE RUNNING AND COSTING MONEY. Delete it by hand:"
  say "  gcloud compute tpus queued-resources delete $name $(quoted "${where[@]}") --force"
  return 1
}

finish() {
  local code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$child" ]; then kill -TERM -- "-$child" 2>/dev/null || true; fi
  if [ -n "$created" ] && [ -z "$keep" ]; then delete_resource || code=1; fi
  rm -rf "$scratch"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# In the background and waited for, so that a signal to this script is answered at once and not
# after the hours that the command may take. Everything it prints is kept in $scratch/log as well.
attended() {
  local code=0
  if [ -n "$DRY_RUN" ]; then
    perform "$@"
    return
  fi
  set -m
  {
    set -o pipefail
    perform "$@" 2>&1 | tee "$scratch/log" >&2
  } </dev/null &
  child=$!
  set +m
  wait "$child" || code=$?
  child=""
  return "$code"
}

pause() {
  sleep "$poll_seconds" &
  wait "$!" || true
}

create() {
  if [ -z "$DRY_RUN" ] && [ -n "$(resource_state)" ]; then
    stop "a queued resource named $name exists already; choose another --name, or delete it"
  fi
  # From here on the trap deletes: a create that fails half-way may have made something.
  created=1
  perform gcloud compute tpus queued-resources create "$name" --node-id="$name" "${where[@]}" \
    --accelerator-type="$accelerator_type" --runtime-version="$runtime_version" \
    ${create_flags[@]+"${create_flags[@]}"}
}

# Returns 0 when the slice is there, 1 when it was taken away before it was.
wait_until_active() {
  local state last=""
  if [ -n "$DRY_RUN" ]; then
    perform gcloud compute tpus queued-resources describe "$name" "${where[@]}" \
      '--format=value(state.state)'
    return 0
  fi
  while true; do
    state="$(resource_state)"
    if [ "$state" != "$last" ]; then say "state: ${state:-not known}"; fi
    last="$state"
    case "$state" in
      ACTIVE) return 0 ;;
      SUSPENDING | SUSPENDED) return 1 ;;
      FAILED)
        gcloud compute tpus queued-resources describe "$name" "${where[@]}" >&2 || true
        say "the request failed; the reason is above"
        exit 1
        ;;
    esac
    pause
  done
}

pack() {
  perform tar -C "$HERE/.." -czf "$scratch/source.tgz" --exclude=__pycache__ \
    mlm_consistency gin launch pyproject.toml constraints.txt README.md LICENSE
}

on_all_workers() {
  attended gcloud compute tpus tpu-vm ssh "$name" "${where[@]}" "${alive[@]}" --quiet \
    --worker=all --command="$1"
}

install() {
  # The images carry Python 3.10; 3.11 comes from the usual archive of Python builds for Ubuntu.
  local python='command -v python3.11 >/dev/null || { sudo add-apt-repository -y ppa:deadsnakes/ppa && sudo apt-get -qq -o DPkg::Lock::Timeout=600 update && sudo apt-get -qq -o DPkg::Lock::Timeout=600 install -y python3.11 python3.11-venv; }'
  attended gcloud compute tpus tpu-vm scp "$scratch/source.tgz" "$name:mlm_consistency.tgz" \
    "${where[@]}" --quiet --worker=all || return
  on_all_workers "set -e; mkdir -p mlm_consistency; tar -xzf mlm_consistency.tgz -C mlm_consistency; $python; PLATFORM=tpu bash mlm_consistency/launch/run_worker.sh --install_only"
}

score() {
  local arguments revision
  revision="$(git -C "$HERE" describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null || true)"
  arguments="$(quoted "$@" --gin.OUTPUT_DIR="'$output_dir'")"
  # Each worker says how it ended: of several failures gcloud passes on the first one alone.
  on_all_workers "MLM_CONSISTENCY_REVISION=$revision PLATFORM=tpu WORKER_PID_FILE=mlm_consistency.pid bash mlm_consistency/launch/run_worker.sh $arguments; code=\$?; echo \"worker \$(hostname) ended with status \$code\"; exit \$code"
}

pack
restarts=0
while true; do
  [ -n "$created" ] || create
  if wait_until_active; then
    code=0
    { install && score "$@"; } || code=$?
    [ "$code" -ne 0 ] || break
  else
    code="$PREEMPTED"
  fi

  pause
  state="$(resource_state)"
  if [ "$state" = ACTIVE ]; then
    # 255 is ssh's own: the connection was lost. Anything else is a failure that would come again.
    if [ "$code" -ne 255 ] && [ "$code" -ne "$PREEMPTED" ] &&
      ! grep -q "ended with status $PREEMPTED\$" "$scratch/log"; then
      say "the run failed with status $code; what it had finished is in $output_dir"
      exit "$code"
    fi
    say "the workers were interrupted; starting them again"
  else
    say "the slice was taken away (state ${state:-not known}); asking for another"
    delete_resource || exit 1
  fi
  restarts=$((restarts + 1))
  if [ "$restarts" -gt "$max_restarts" ]; then
    say "$max_restarts restarts are used up; the same command goes on with the run"
    exit "$PREEMPTED"
  fi
done

perform mkdir -p "$fetch_to"
perform gcloud storage rsync --recursive "$output_dir" "$fetch_to"
say "complete after $restarts restarts; next: mlm-consistency analyze $fetch_to && mlm-consistency report $fetch_to"
