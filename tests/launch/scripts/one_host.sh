# Create the TPU.
gcloud compute tpus tpu-vm create cpc --zone=europe-west4-a --quiet --accelerator-type=v3-8 --version=tpu-vm-tf-2.15.0-pjrt
until gcloud compute tpus tpu-vm describe cpc --zone=europe-west4-a --quiet '--format=value(state)' | grep -x READY; do sleep 0.02; done
# Pack the code and the settings.
folder=$(mktemp -d)
cat > "$folder/run.flags" << 'END'
...
cat > "$folder/requirements.txt" << 'END'
...
(umask 077 && tar -czf "$folder/cpc_tf.tar.gz" --exclude=__pycache__ '--exclude=*.pyc' '--exclude=*.so' -C CODE cpc_tf -C "$folder" run.flags requirements.txt)
# Ship them, and install what they need.
gcloud compute tpus tpu-vm scp "$folder/cpc_tf.tar.gz" cpc:cpc_tf.tar.gz --zone=europe-west4-a --quiet --worker=all
gcloud compute tpus tpu-vm ssh cpc --zone=europe-west4-a --quiet --worker=all '--command=chmod 600 cpc_tf.tar.gz && mkdir -p cpc_tf_launch && rm -rf cpc_tf_launch/cpc_tf && tar -xzf cpc_tf.tar.gz -C cpc_tf_launch && bash cpc_tf_launch/cpc_tf/launch/host.sh install'
rm -r "$folder"
# Train.
gcloud compute tpus tpu-vm ssh cpc --zone=europe-west4-a --quiet --worker=0 '--command=bash cpc_tf_launch/cpc_tf/launch/host.sh start 5 0.01 pretrain gs://bucket/runs/x/pretrain env PYTHONUNBUFFERED=1 NEXT_PLUGGABLE_DEVICE_USE_C_API=true TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so python3 -m cpc_tf pretrain --flagfile=run.flags'
gcloud compute tpus tpu-vm ssh cpc --zone=europe-west4-a --quiet --worker=0 '--command=bash cpc_tf_launch/cpc_tf/launch/host.sh follow 1 0 0.02' --ssh-flag=-oServerAliveInterval=30 --ssh-flag=-oServerAliveCountMax=4
gcloud compute tpus tpu-vm ssh cpc --zone=europe-west4-a --quiet --worker=0 '--command=test ! -e cpc_tf_launch/cpc_tf/launch/host.sh || bash cpc_tf_launch/cpc_tf/launch/host.sh state'
# Delete the TPU, which costs money until then.
gcloud compute tpus tpu-vm delete cpc --zone=europe-west4-a --quiet
# Bring the result.
mkdir -p runs/x/pretrain
gcloud storage rsync gs://bucket/runs/x/pretrain runs/x/pretrain --quiet
