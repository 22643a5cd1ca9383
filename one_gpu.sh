#!/usr/bin/env bash
# Runs a command on one GPU, which no other command has that this script has started:  ./one_gpu.sh COMMAND...
# Waits until a GPU is free. CUDA_VISIBLE_DEVICES names those to choose from; by default all of this machine.
set -euo pipefail
if ! gpus=${CUDA_VISIBLE_DEVICES-$(nvidia-smi --query-gpu=index --format=csv,noheader 2> /dev/null)} || [ -z "$gpus" ]; then
  exec "$@" # on the CPU
fi
while :; do
  for gpu in ${gpus//,/ }; do
    # The command keeps the file open, and locked, until it ends, however it ends.
    exec 9>> "${TMPDIR:-/tmp}/one_gpu.$UID.$gpu"
    if flock --nonblock 9; then
      export CUDA_VISIBLE_DEVICES=$gpu
      exec "$@"
    fi
  done
  sleep 1
done
