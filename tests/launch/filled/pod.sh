#!/usr/bin/env bash
# Trains on a Cloud TPU: creates the TPU, ships the code, starts the training, follows its log, and goes on from the last
# checkpoint after a preemption. However this script ends it deletes the TPU; after success it fetches the result.
# Written by `cpc-tf launch`. Run it where `gcloud` is logged in, on a machine that stays on. The same script goes on with a
# TPU on which it started this run before. Exit status: that of the training, or 7 if the TPU may still be there.
set -euo pipefail
exec 3>&2 # for what is said

workdir=gs://bucket/runs/x/pretrain
poll=30 # seconds between two questions to gcloud

# ---- The commands of gcloud

create() {
  gcloud compute tpus queued-resources create cpc --zone=europe-west4-a --project=mine --quiet --node-id=cpc \
    --accelerator-type=v3-32 --runtime-version=tpu-vm-tf-2.15.0-pod-pjrt --spot '--network=my net'
}
describe() { gcloud compute tpus queued-resources describe cpc --zone=europe-west4-a --project=mine --quiet --format='value(state.state)'; }
delete() { gcloud compute tpus queued-resources delete cpc --zone=europe-west4-a --project=mine --quiet --force; }
on_host() { # WORKER COMMAND; a connection that is lost is noticed within two minutes
  gcloud compute tpus tpu-vm ssh cpc --zone=europe-west4-a --project=mine --quiet --worker="$1" --command="$2" \
    --ssh-flag=-oServerAliveInterval=30 --ssh-flag=-oServerAliveCountMax=4 --internal-ip
}
ship() { # to all hosts
  gcloud compute tpus tpu-vm scp "$folder/cpc_tf.tar.gz" cpc:cpc_tf.tar.gz --zone=europe-west4-a --project=mine --quiet --worker=all --internal-ip
}
install() {
  local unpack='umask 077; mkdir -p cpc_tf_launch && tar -xzf cpc_tf.tar.gz -C cpc_tf_launch'
  on_host all "$unpack && bash cpc_tf_launch/host.sh install"
}
start() {
  on_host all 'bash cpc_tf_launch/host.sh feed' || return 1
  on_host 0 'bash cpc_tf_launch/host.sh start'
}
fetch() { mkdir -p runs/x/pretrain && gcloud storage rsync "$workdir" runs/x/pretrain --quiet; }

# ---- What is shipped: the code, the settings of the run, and what its hosts do

pack() (
  umask 077 # nobody else reads it
  cd "$folder"
  cat > run.flags << 'END'
...
END
  cat > requirements.txt << 'END'
...
END
  od -An -N32 -tx1 /dev/urandom > feed.secret # what the input servers and the training know
  cat > host.sh << 'END'
set -eu
cd "$(dirname "$0")"
running() { ! flock --shared --nonblock "$1" true; } # what runs holds its file open and locked
case $1 in
install)
  ! running feed.lock || kill -KILL -- "-$(cat feed.pid)" # it knows an earlier secret
  python3 -m pip install --quiet --disable-pip-version-check -r requirements.txt
  echo gs://bucket/runs/x/pretrain > workdir
  ;;
feed) # an input server, unless one runs here; returns once it is ready
  exec 8> feed.lock
  if flock --timeout 2 8; then
    rm -f feed.log
    export CPC_TF_FEED_SECRET=feed.secret TPU_LOAD_LIBRARY=0
    setsid python3 -m cpc_tf feed --port=8480 --address=0.0.0.0 > feed.log 2>&1 < /dev/null &
    echo $! > feed.pid
  fi
  exec 8>&-
  until grep -q ready feed.log; do
    running feed.lock || { tail -n 5 feed.log >&2; exit 1; }
    sleep 0.2
  done
  ;;
start) # the training, unless it runs; it needs no connection
  exec 9> lock
  flock --timeout 2 9 || exit 0
  rm -f status
  : > log
  export PYTHONUNBUFFERED=1 TPU_NAME=cpc TPU_LOAD_LIBRARY=0 CPC_TF_FEED=:8480 CPC_TF_FEED_SECRET=feed.secret
  train='python3 -m cpc_tf pretrain --flagfile=run.flags >> log 2>&1'
  setsid bash -c "$train; echo \$? > status" < /dev/null > /dev/null 2>&1 &
  echo $! > pid
  ;;
follow) # shows the log until the training ends; after a lost connection its last lines come again
  flock --shared lock true &
  tail --lines=100 --follow --sleep-interval=0.2 --pid=$! log
  ;;
state)
  if running lock; then
    echo "launch: running"
  elif [ -e status ]; then
    echo "launch: ended $(cat status)"
  fi
  ;;
stop) # the training saves its step
  if running lock; then
    kill -TERM -- "-$(cat pid)"
    flock --shared --timeout 300 lock true
  fi
  ;;
esac
END
  tar -czf cpc_tf.tar.gz --exclude=__pycache__ --exclude='*.pyc' --exclude='*.so' -C CODE cpc_tf -C "$folder" \
    host.sh run.flags requirements.txt feed.secret
)

# ---- What this script does when

folder=$(mktemp -d)
child=     # process group of the command that runs
ours=      # whether there may be a TPU that this script has to delete
creating=  # whether a creation was cut off: the TPU may come later
installed= # whether the code is on the hosts
busy=      # whether the training may run there
said= restarts=0 began=0

say() {
  [ "$*" = "$said" ] || echo "$(date +%T) launch: $*" >&3 || true # no line is worth a TPU
  said=$*
}

fail() {
  say "$@"
  exit 1
}

step() { # COMMAND..., which a signal to this script interrupts
  set -m # it gets a process group, which the end of this script ends as a whole
  "$@" < /dev/null &
  child=$!
  set +m
  wait "$child"
}

missing() { grep -qE 'NOT_FOUND|was not found' "$folder/error"; }

look() { # sets `state` of the TPU, such as ACTIVE; GONE if there is none
  until step describe > "$folder/answer" 2> "$folder/error"; do
    if missing; then
      echo GONE > "$folder/answer"
      break
    fi
    [ "$ours" ] || fail "gcloud cannot ask for the TPU: $(tail -n 1 "$folder/error")"
    say "gcloud does not answer: $(tail -n 1 "$folder/error")"
    step sleep "$poll"
  done
  state=$(cat "$folder/answer")
}

remove() { # deletes the TPU; returns 1 if it may still be there
  local number
  for number in 1 2 3 4 5 6 7 8 9 10; do
    if delete 2> "$folder/error" || { missing && [ -z "$creating" ]; }; then
      ours='' creating='' installed='' busy=''
      say "the TPU cpc is deleted"
      return 0 # without the 0, in a trap, it would return the status of the script
    fi
    if missing; then
      creating='' # look once more
    else
      say "the TPU is not deleted yet: $(tail -n 1 "$folder/error")"
    fi
    sleep "$poll"
  done
  return 1
}

obtain() { # returns once there is a TPU of ours that is ready
  while true; do
    look
    case $state in
    ACTIVE)
      [ "$ours" ] || adopt
      return
      ;;
    GONE)
      say "asking for the spot TPU cpc (v3-32) in europe-west4-a"
      ours=yes creating=yes installed=''
      if ! step create 2> "$folder/error"; then
        creating=''
        say "no TPU yet: $(grep -m 1 ERROR "$folder/error" || tail -n 1 "$folder/error")"
        if ! grep -qiE 'capacity|stockout|unavailable|timed out|connection' "$folder/error"; then
          look
          [ "$state" != GONE ] || ours=''
          fail "gcloud refuses it for good, as above"
        fi
        step sleep "$poll"
      fi
      creating=''
      ;;
    ACCEPTED | WAITING_FOR_RESOURCES | *ING) # such as CREATING
      say "the TPU is $state; asking again every $poll s"
      step sleep "$poll"
      ;;
    *) # such as PREEMPTED: it does not come back
      [ "$ours$state" != yesFAILED ] || fail "the request failed; gcloud compute tpus queued-resources describe says why"
      say "the TPU is $state: deleting what is left of it"
      remove || fail "it cannot be deleted"
      ;;
    esac
  done
}

adopt() { # takes a TPU that was there before, if this run was started on it
  step on_host 0 'cat cpc_tf_launch/workdir' > "$folder/answer" || true
  [ "$(tail -n 1 "$folder/answer")" = "$workdir" ] ||
    fail "there is a TPU cpc that is not known to be of this run; take another --name, or delete it: "'gcloud compute tpus queued-resources delete cpc --zone=europe-west4-a --project=mine --quiet --force'
  say "goes on with the TPU cpc, which is there already, and deletes it in the end"
  ours=yes installed=yes busy=yes
}

try() { # a command on the hosts, again while the TPU is ready; returns 1 if the TPU was lost
  local failures=0
  until step "$@"; do
    look
    [ "$state" = ACTIVE ] || return 1
    failures=$((failures + 1))
    [ "$busy" ] || [ $failures -lt 5 ] || fail "'$1' failed 5 times on the TPU, as above"
    say "'$1' failed on the TPU; trying again"
    step sleep "$poll"
  done
}

train() { # returns 0 once the training is done, 1 if the TPU was lost
  obtain
  if [ -z "$installed" ]; then
    say "shipping the code, and installing what it needs"
    try ship && try install && try start || return 1
    say "training; its log:"
    installed=yes busy=yes began=$SECONDS
  fi
  while true; do
    step on_host 0 'bash cpc_tf_launch/host.sh follow' || true
    step on_host 0 'bash cpc_tf_launch/host.sh state' > "$folder/answer" || true
    local answer
    answer=$(sed -n 's/^launch: //p' "$folder/answer")
    case $answer in
    "ended 0") return 0 ;;
    "ended 2" | "ended 3" | "ended 5") # a setting that cannot work, diverged, out of memory
      say "the training ended with status ${answer#ended }; its last lines above say why"
      exit "${answer#ended }"
      ;;
    "ended "*)
      [ $((SECONDS - began)) -lt 3600 ] || restarts=0
      restarts=$((restarts + 1))
      say "the training ended with status ${answer#ended } ($restarts of 5 restarts within an hour)"
      [ $restarts -le 5 ] || exit "${answer#ended }"
      began=$SECONDS
      try start || return 1
      ;;
    running)
      say "the connection was lost; the training goes on"
      step sleep "$poll"
      ;;
    *) # the host was restarted, the TPU was lost, or there is no connection
      step sleep "$poll"
      try start || return 1
      ;;
    esac
  done
}

clean_up() {
  local status=$?
  set +e
  trap '' INT TERM HUP PIPE # nothing interrupts the deletion
  [ -z "$child" ] || kill -TERM -- "-$child" 2> /dev/null
  if [ "$busy" ] && [ $status -gt 128 ]; then
    say "stopped: the training saves its step, for at most 300 s"
    on_host 0 'bash cpc_tf_launch/host.sh stop'
  fi
  if [ "$ours" ] && ! remove; then
    say "the TPU cpc could not be deleted and COSTS MONEY while it exists; run: "'gcloud compute tpus queued-resources delete cpc --zone=europe-west4-a --project=mine --quiet --force'
    status=7
  fi
  rm -rf "$folder"
  exit $status
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
trap 'exit 141' PIPE

pack
until train; do
  say "the TPU is $state; the training will go on from its last checkpoint"
  busy='' installed=''
done
trap '' INT TERM HUP
remove || true # else the end of this script tries again
trap - INT TERM HUP
step fetch || fail "the training is done, but its result could not be copied: it is in $workdir"
say "done: "runs/x/pretrain"; checkpoints stay in $workdir"
