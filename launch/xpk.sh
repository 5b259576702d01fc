#!/usr/bin/env bash
# One run on a GKE cluster that xpk made: create the workload, wait, fetch, delete.
#
#   bash launch/xpk.sh --project=P --zone=Z --cluster=C --tpu_type=v5litepod-16 --image=IMAGE \
#     --output_dir=gs://BUCKET/runs/ul2_mmlu [flags] -- --gin_file=gin/runs/ul2_20b_mmlu.gin ...
#
#   --project       by default $CLOUDSDK_CORE_PROJECT
#   --zone          by default $CLOUDSDK_COMPUTE_ZONE
#   --cluster       the cluster's name
#   --tpu_type      v5litepod-16, v5p-8, v6e-8 ...
#   --image         built from launch/Dockerfile with --build-arg EXTRAS=tpu
#   --output_dir    gs:// folder of the run
#   --name          of the workload (mlm-consistency)
#   --max_restarts  of the whole workload, after preemption or a crash (20)
#   --create_flag   one more flag for `xpk workload create`; may be repeated
#   --fetch_to      where results are copied on this machine (runs/NAME)
#   --keep          leave the finished workload in the cluster
#   --dry_run       print every command, run none
#
# Kubernetes restarts all workers when one of them is preempted (status 75) or dies.
set -euo pipefail

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# shellcheck disable=SC2034  # read by commands.sh
LAUNCHER=xpk
# shellcheck source=launch/commands.sh
source "$HERE/commands.sh"

project="${CLOUDSDK_CORE_PROJECT:-}"
zone="${CLOUDSDK_COMPUTE_ZONE:-}"
cluster="" tpu_type="" image="" output_dir="" name=mlm-consistency max_restarts=20 fetch_to="" keep=""
create_flags=()

while [ "$#" -gt 0 ]; do
  case "$1" in
    --help) manual "$0"; exit 0 ;;
    --project=*) project="${1#*=}" ;;
    --zone=*) zone="${1#*=}" ;;
    --cluster=*) cluster="${1#*=}" ;;
    --tpu_type=*) tpu_type="${1#*=}" ;;
    --image=*) image="${1#*=}" ;;
    --output_dir=*) output_dir="${1#*=}" ;;
    --name=*) name="${1#*=}" ;;
    --max_restarts=*) max_restarts="${1#*=}" ;;
    --create_flag=*) create_flags+=("${1#*=}") ;;
    --fetch_to=*) fetch_to="${1#*=}" ;;
    --keep) keep=1 ;;
    --dry_run) DRY_RUN=1 ;;
    --) shift; break ;;
    *) stop "unknown argument $1; arguments of the run itself come after --. See --help." ;;
  esac
  shift
done

need project "$project" "the Google Cloud project (or set CLOUDSDK_CORE_PROJECT)"
need zone "$zone" "the cluster's zone (or set CLOUDSDK_COMPUTE_ZONE)"
need cluster "$cluster" "the name of a cluster made by 'xpk cluster create'"
need tpu_type "$tpu_type" "v5litepod-16, say"
need image "$image" "the container image, built from launch/Dockerfile"
need output_dir "$output_dir" "a gs:// folder, which every worker writes its shards to"
[ "$#" -gt 0 ] || stop "nothing to score: give -- --gin_file=FILE at the end"
fetch_to="${fetch_to:-runs/$name}"
need_program xpk "pip install xpk"
need_program gcloud "install the Google Cloud CLI"

where=(--cluster="$cluster" --project="$project" --zone="$zone")
created=""

finish() {
  local code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$created" ] && [ -z "$keep" ]; then
    perform xpk workload delete --workload="$name" "${where[@]}" --force || {
      say "deleting failed; by hand: xpk workload delete --workload=$name $(quoted "${where[@]}")"
      [ "$code" -ne 0 ] || code=1
    }
  fi
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

command="PLATFORM=tpu SKIP_INSTALL=1 bash launch/run_worker.sh $(quoted "$@" --gin.OUTPUT_DIR="'$output_dir'")"
created=1
perform xpk workload create --workload="$name" "${where[@]}" --tpu-type="$tpu_type" \
  --docker-image="$image" --max-restarts="$max_restarts" --restart-on-exit-codes=75 \
  ${create_flags[@]+"${create_flags[@]}"} --command="$command"

# In the background, so that a signal to this script is answered at once.
code=0
if [ -n "$DRY_RUN" ]; then
  perform xpk workload list "${where[@]}" --wait-for-job-completion="$name"
else
  perform xpk workload list "${where[@]}" --wait-for-job-completion="$name" </dev/null &
  wait "$!" || code=$?
fi
case "$code" in
  0) ;;
  125)
    say "the workload failed; what it had finished is in $output_dir, its log in Cloud Logging"
    exit 1
    ;;
  *) stop "waiting for the workload failed with status $code" ;;
esac

perform mkdir -p "$fetch_to"
perform gcloud storage rsync --recursive "$output_dir" "$fetch_to"
say "complete; next: mlm-consistency analyze $fetch_to && mlm-consistency report $fetch_to"
