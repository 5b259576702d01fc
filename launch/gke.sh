#!/usr/bin/env bash
# One run on a GKE cluster with TPU nodes: fill in gke_job.yaml, apply, wait, fetch, delete.
#
#   bash launch/gke.sh --image=IMAGE --accelerator=tpu-v5-lite-podslice --topology=4x4 --workers=4 \
#     --output_dir=gs://BUCKET/runs/ul2_mmlu [flags] -- --gin_file=gin/runs/ul2_20b_mmlu.gin ...
#
#   --image             built from launch/Dockerfile with --build-arg EXTRAS=tpu
#   --accelerator       GKE's name: tpu-v4-podslice, tpu-v5-lite-podslice, tpu-v5p-slice, tpu-v6e-slice
#   --topology          of the slice: 4x4, 2x2x2 ...
#   --workers           machines of the slice: chips / chips_per_worker
#   --chips_per_worker  (4)
#   --output_dir        gs:// folder of the run
#   --name              of the JobSet (mlm-consistency)
#   --namespace         (default)
#   --service_account   Kubernetes account that may read and write the bucket (default)
#   --max_restarts      after a crash; restarts after preemption are not counted (3)
#   --poll_seconds      between looks at the JobSet's state (30)
#   --fetch_to          where results are copied on this machine (runs/NAME)
#   --keep              leave the finished JobSet in the cluster
#   --dry_run           print every command and the filled-in file, run none
#
# kubectl's current context says which cluster.
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck disable=SC2034  # read by commands.sh
LAUNCHER=gke
# shellcheck source=launch/commands.sh
source "$HERE/commands.sh"

image="" accelerator="" topology="" workers="" chips_per_worker=4 output_dir="" name=mlm-consistency
namespace=default service_account=default max_restarts=3 poll_seconds=30 fetch_to="" keep=""

while [ "$#" -gt 0 ]; do
  case "$1" in
    --help) manual "$0"; exit 0 ;;
    --image=*) image="${1#*=}" ;;
    --accelerator=*) accelerator="${1#*=}" ;;
    --topology=*) topology="${1#*=}" ;;
    --workers=*) workers="${1#*=}" ;;
    --chips_per_worker=*) chips_per_worker="${1#*=}" ;;
    --output_dir=*) output_dir="${1#*=}" ;;
    --name=*) name="${1#*=}" ;;
    --namespace=*) namespace="${1#*=}" ;;
    --service_account=*) service_account="${1#*=}" ;;
    --max_restarts=*) max_restarts="${1#*=}" ;;
    --poll_seconds=*) poll_seconds="${1#*=}" ;;
    --fetch_to=*) fetch_to="${1#*=}" ;;
    --keep) keep=1 ;;
    --dry_run) DRY_RUN=1 ;;
    --) shift; break ;;
    *) stop "unknown argument $1; arguments of the run itself come after --. See --help." ;;
  esac
  shift
done

need image "$image" "the container image, built from launch/Dockerfile"
need accelerator "$accelerator" "tpu-v5-lite-podslice, say"
need topology "$topology" "4x4, say"
need workers "$workers" "the machines of the slice, 4 for v5e 4x4"
need output_dir "$output_dir" "a gs:// folder, which every worker writes its shards to"
[ "$#" -gt 0 ] || stop "nothing to score: give -- --gin_file=FILE at the end"
fetch_to="${fetch_to:-runs/$name}"
need_program kubectl "install it with: gcloud components install kubectl"
need_program gcloud "install the Google Cloud CLI"

# The arguments as a JSON list, which is YAML too.
json_list() {
  local word list=""
  for word in "$@"; do
    word="$(printf '%s' "$word" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')"
    list="$list${list:+, }\"$word\""
  done
  printf '[%s]' "$list"
}

# fill WORD VALUE: replaces @WORD@ in $job. The quotes around $2 keep & and \ as they are.
fill() { job=${job//"@$1@"/"$2"}; }

job="$(cat "$HERE/gke_job.yaml")"
fill NAME "$name"
fill MAX_RESTARTS "$max_restarts"
fill WORKERS "$workers"
fill SERVICE_ACCOUNT "$service_account"
fill ACCELERATOR "$accelerator"
fill TOPOLOGY "$topology"
fill IMAGE "$image"
fill CHIPS "$chips_per_worker"
fill ARGUMENTS "$(json_list "$@" --gin.OUTPUT_DIR="'$output_dir'")"

scratch="$(mktemp -d)"
created=""
k8s() { perform kubectl --namespace="$namespace" "$@"; }

finish() {
  local code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$created" ] && [ -z "$keep" ]; then
    k8s delete jobset "$name" --ignore-not-found || {
      say "deleting failed; by hand: kubectl --namespace=$namespace delete jobset $name"
      [ "$code" -ne 0 ] || code=1
    }
  fi
  rm -rf "$scratch"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

printf '%s\n' "$job" >"$scratch/job.yaml"
[ -z "$DRY_RUN" ] || printf '%s\n' "$job"
created=1
k8s create -f "$scratch/job.yaml" || {
  created="" # a name that is taken belongs to somebody else's run
  stop "the JobSet was not created; kubectl says why above"
}

status() { kubectl --namespace="$namespace" get jobset "$name" -o "jsonpath={.status.$1}"; }

if [ -n "$DRY_RUN" ]; then
  k8s get jobset "$name" -o 'jsonpath={.status.terminalState}'
else
  restarts=0
  misses=0
  while true; do
    if state="$(status terminalState)" && now="$(status restarts)"; then
      misses=0
      if [ -n "$now" ] && [ "$now" != "$restarts" ]; then say "started again ($now)"; restarts="$now"; fi
    else
      # One failed look is a network matter; many are not.
      misses=$((misses + 1))
      [ "$misses" -lt 10 ] || stop "the JobSet cannot be read any more; it may have been deleted"
      state=""
    fi
    case "$state" in
      Completed) break ;;
      Failed)
        k8s logs --selector="jobset.sigs.k8s.io/jobset-name=$name" --tail=50 --prefix || true
        say "the run failed; what it had finished is in $output_dir"
        exit 1
        ;;
    esac
    sleep "$poll_seconds" &
    wait "$!" || true
  done
fi

perform mkdir -p "$fetch_to"
perform gcloud storage rsync --recursive "$output_dir" "$fetch_to"
say "complete; next: mlm-consistency analyze $fetch_to && mlm-consistency report $fetch_to"
