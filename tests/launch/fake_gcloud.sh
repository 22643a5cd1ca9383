#!/usr/bin/env bash
# Plays gcloud: keeps a TPU in the folder $FAKE_GCLOUD and runs the commands of its hosts here, in a folder for each.
# In Bash, which starts ten times as fast as Python: a launch calls it a dozen times.
#
# `plan/STEP` says what goes wrong at the next calls of a step, a line for each call ('ok': nothing):
#
#     refuse MESSAGE      fails with the message
#     signal NAME         sends the script a signal, after the step was done; the call then hangs, unless it deletes
#     break               of `follow`: the connection is lost within the log
#     preempt             of `follow`: the TPU is preempted within the log
#     reboot              of `follow`: the host is restarted within the log
#     state NAME          of `describe` and `queue_describe`: the state from now on
shopt -s nullglob
tpu=$FAKE_GCLOUD/tpu request=$FAKE_GCLOUD/request

# Step -> flags that gcloud has for it, by its reference.
bought="--accelerator-type --spot --network"
declare -A known=(
  [create]="--version $bought" [describe]=--format [delete]=""
  [queue_create]="--node-id --runtime-version $bought" [queue_describe]=--format [queue_delete]=--force
  [scp]="--worker --internal-ip" [ssh]="--command --ssh-flag --worker --internal-ip"
)

fail() {
  printf 'Using what gcloud says first.\nERROR: (gcloud.compute.tpus) %s\n' "$1" >&2
  exit 1
}

missing() { fail "NOT_FOUND: Resource 'projects/p/locations/z/nodes/cpc' was not found"; }

# Sets action and detail to what goes wrong now: the first line of the step's plan, which is removed.
read_plan() {
  local lines=()
  if [ -e "$FAKE_GCLOUD/plan/$step" ]; then
    mapfile -t lines < "$FAKE_GCLOUD/plan/$step"
    printf '%s\n' "${lines[@]:1}" > "$FAKE_GCLOUD/plan/$step"
  fi
  read -r action detail <<< "${lines[0]:-ok}"
}

create() { # ACCELERATOR_TYPE
  local units=${1#*-} number
  for ((number = 0; number == 0 || number < units / 8; number++)); do mkdir -p "$FAKE_GCLOUD/hosts/$number"; done
  printf READY > "$tpu"
}

end_all() { # that runs on the hosts
  local file
  for file in "$FAKE_GCLOUD"/hosts/*/cpc_tf_launch/*pid; do kill -KILL -- "-$(< "$file")" 2> /dev/null; done
}

remove() {
  end_all
  rm -rf "$tpu" "$FAKE_GCLOUD/hosts"
}

on_host() { cd "$1" && HOME=$1 PATH=$FAKE_GCLOUD/bin_of_hosts:$PATH exec bash -c "${flags[--command]}"; }

ssh() {
  local host line status=0
  for host in "${hosts[@]}"; do
    if [[ $action =~ ^(break|preempt|reboot)$ ]]; then
      exec 5< <(on_host "$host" 2> /dev/null)
      read -r line <&5 # some of the log
      echo "$line"
      kill -KILL $!
    fi
    case $action in
    break) false ;;
    preempt)
      remove
      printf PREEMPTED > "$tpu"
      [ ! -e "$request" ] || printf SUSPENDED > "$request"
      false
      ;;
    reboot)
      end_all
      false
      ;;
    *) (on_host "$host") ;;
    esac || status=$?
  done
  return $status
}

fetch() { # FROM TO
  local folder=$FAKE_GCLOUD/bucket/${1#gs://} path
  step=fetch
  read_plan
  [ "$action" = ok ] && [ -d "$folder" ] || fail "$1 does not exist"
  for path in "$folder"/*; do [ -d "$path" ] || cp "$path" "$2"; done
}

execute() { # STEP, as far as it goes well
  case $1 in
  create)
    [ ! -e "$tpu" ] || fail "ALREADY_EXISTS: Resource already exists"
    create "${flags[--accelerator-type]}"
    ;;
  describe) [ -e "$tpu" ] && echo "$(< "$tpu")" || missing ;;
  delete) [ -e "$tpu" ] && remove || missing ;;
  queue_create) printf WAITING_FOR_RESOURCES > "$request" && printf %s "${flags[--accelerator-type]}" > "$request.type" ;;
  queue_describe)
    [ -e "$request" ] || missing
    local state
    state=$(< "$request")
    echo "${state/ because /$'\t'}"
    if [ "$state" = WAITING_FOR_RESOURCES ]; then # it comes at the second question
      printf ACTIVE > "$request"
      create "$(< "$request.type")"
    fi
    ;;
  queue_delete)
    [ -e "$request" ] || missing
    rm "$request"
    remove
    ;;
  *)
    [ -e "$tpu" ] && [ "$(< "$tpu")" = READY ] || fail "This TPU has terminal state, so it cannot be used anymore."
    hosts=("$FAKE_GCLOUD"/hosts/*)
    [ "${flags[--worker]}" = all ] || hosts=("${hosts[${flags[--worker]}]}")
    if [ "$1" != scp ]; then ssh; else
      for host in "${hosts[@]}"; do cp "${names[0]}" "$host/${names[1]#*:}"; done
    fi
    ;;
  esac
}

echo "gcloud ${*@Q}" >> "$FAKE_GCLOUD/calls"
if [ "$1" = storage ]; then
  fetch "$3" "$4"
  exit
fi
[ "$1 $2" = "compute tpus" ] || fail "INVALID_ARGUMENT: $*"
step=$4
[ "$3" = tpu-vm ] || step=queue_$4
shift 4
declare -A flags=()
names=()
for word; do
  case $word in
  --*) flags[${word%%=*}]=${word#*=} ;;
  *) names+=("$word") ;;
  esac
done
for flag in "${!flags[@]}"; do
  [[ " ${known[$step]} --zone --project --quiet " == *" $flag "* ]] || fail "INVALID_ARGUMENT: $step has no $flag"
done
if [ "$step" = ssh ]; then # by the word of the host's script
  step=${flags[--command]##*host.sh }
  step=${step%%[ \']*}
fi
read_plan
[ "$action" != refuse ] || fail "$detail"
if [ "$action" = state ]; then
  [[ $step == queue_* ]] && printf %s "$detail" > "$request" || printf %s "$detail" > "$tpu"
fi
execute "$step"
status=$?
if [ "$action" = signal ]; then
  until [ -e "$FAKE_GCLOUD/pid" ]; do sleep 0.01; done
  kill -s "$detail" "$(< "$FAKE_GCLOUD/pid")"
  [[ $step == *delete ]] || while kill -0 "$(< "$FAKE_GCLOUD/pid")"; do sleep 0.05; done 2> /dev/null
fi
exit $status
