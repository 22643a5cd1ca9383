#!/usr/bin/env bash
# Trains on a Cloud TPU with tensorflow-tpu, fetches the result and deletes the TPU (docs/scale.md).
# Written after Google's documentation and tried on no TPU: read it before you pay for one.
#
#   NAME=cpc ZONE=us-west4-a TYPE=v5litepod-8 MORE=--spot cloud/tpu.sh train pretrain \
#     --preset=imagenet/pretrain_resnet50 --data_dir=gs://B/data --workdir=gs://B/runs/r50
#
# A step: cloud/tpu.sh create | queue | copy | install | run COMMAND.. | fetch --workdir=.. | delete
set -euo pipefail
: "${NAME:?is the name of the TPU}" "${ZONE:?is its zone}" "${TYPE:?is its type: v5litepod-8}"
IMAGE=${IMAGE:-tpu-ubuntu2204-base} # v5e: v2-alpha-tpuv5-lite, v6e: v2-alpha-tpuv6e
GET=${GET:-create} MORE=${MORE:-}   # or queue; further flags of gcloud for either
HOSTS=${HOSTS:-1} PAUSE=${PAUSE:-60} # that the type has; seconds before another try

vm() { gcloud compute tpus tpu-vm "$@" "--zone=$ZONE" --quiet; }
queued() { gcloud alpha compute tpus queued-resources "$@" "--zone=$ZONE" --quiet; }
on() { vm ssh "$NAME" "--worker=$1" --ssh-flag=-tt "--command=mkdir -p cpc_tf && cd cpc_tf && $2"; }
create() { vm create "$NAME" "--accelerator-type=$TYPE" "--version=$IMAGE" $MORE; }
queue() {
  queued create "$NAME" --node-id="$NAME" --accelerator-type="$TYPE" \
    --runtime-version="$IMAGE" $MORE
  until state=$(queued describe "$NAME" "--format=value(state.state)") && [ "$state" = ACTIVE ]; do
    case $state in FAILED | SUSPENDED) return 1 ;; esac
    sleep "$PAUSE"
  done
}
copy() {
  tar -czf /tmp/cpc_tf.tgz -C "$(dirname "$0")/.." cpc_tf export flags requirements-tpu.txt &&
    vm scp /tmp/cpc_tf.tgz "$NAME:" --worker=all
}
install() { # TensorFlow for TPUs last: tf-keras brings the usual one, which has the same files
  on all "tar -xzf ../cpc_tf.tgz && pip install -q -r requirements-tpu.txt && pip install -q \
    --no-deps --force-reinstall \$(grep ^tensorflow-tpu requirements-tpu.txt)"
}
run() { # of several hosts each serves its chips, and the first one trains
  local chips=--tpu=local with="TF_PLUGGABLE_DEVICE_LIBRARY_PATH=\$(python3 -c 'import libtpu; \
    print(libtpu.get_library_path())') NEXT_PLUGGABLE_DEVICE_USE_C_API=true"
  if [ "$HOSTS" -gt 1 ]; then
    on all "{ pgrep -f start_grpc_tpu || setsid ~/.local/bin/start_grpc_tpu_worker &> log & }"
    chips=--tpu=$NAME with=TPU_LOAD_LIBRARY=0
  fi
  on 0 "env $with python3 -m cpc_tf ${*@Q} --strategy=tpu $chips"
}
fetch() { # to the path of --workdir in its bucket
  for word; do case $word in --workdir=gs://*) from=${word#--workdir=} ;; esac; done
  mkdir -p "${from#gs://*/}" && gcloud storage rsync "$from" "${from#gs://*/}"
}
delete() { if [ "$GET" = queue ]; then queued delete "$NAME" --force; else vm delete "$NAME"; fi; }
train() { # all steps; after a preemption or a lost connection the run resumes
  trap 'delete || { echo "the TPU $NAME may be left and COSTS MONEY: delete it" >&2; exit 7; }' EXIT
  for attempt in {1..20}; do
    [ "$(vm describe "$NAME" "--format=value(state)")" = READY ] || "$GET" ||
      { delete || sleep "$PAUSE"; continue; }
    status=0 && { copy && install && run "$@"; } || status=$?
    case $status in 0) fetch "$@" && exit ;; 2 | 3 | 5) exit $status ;; esac
    echo "attempt $attempt of 20 ended with status $status" >&2 && sleep "$PAUSE"
  done
  exit 1
}
"$@"
