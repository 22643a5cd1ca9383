#!/usr/bin/env bash
# Plays gcloud: the file $CLOUD/tpu has the state of the TPU, whose host is the folder $CLOUD/host.
# $CLOUD/plan/STEP says how the next calls of a step end, a line each: a status, or a state of the
# TPU, with which all but `describe` fail.
case "$*" in
*" create "*) step=create ;;
*" describe "*) step=describe ;;
*" delete "*) step=delete ;;
*" scp "*) step=scp ;;
*" ssh "*pip*) step=install ;;
*" ssh "*start_grpc*) step=serve ;;
*" ssh "*) step=run ;;
*rsync*) step=fetch ;;
esac
echo "$step" >> "$CLOUD/steps"
echo "$*" >> "$CLOUD/calls"
plan=$(head -n 1 "$CLOUD/plan/$step" 2> /dev/null)
[ -z "$plan" ] || sed -i 1d "$CLOUD/plan/$step"
case $plan in
[A-Z]*) echo "$plan" > "$CLOUD/tpu" ;;
?*) exit "$plan" ;;
esac
[ "$step" = describe ] || [ -z "$plan" ] || exit 1
case $step in scp | install | serve | run) [ "$(cat "$CLOUD/tpu")" = READY ] || exit 1 ;; esac

case $step in
create) [ ! -e "$CLOUD/tpu" ] && mkdir -p "$CLOUD/host" && echo READY > "$CLOUD/tpu" ;;
describe) cat "$CLOUD/tpu" 2> /dev/null ;;
delete) rm -r "$CLOUD/tpu" "$CLOUD/host" ;;
scp) cp "$5" "$CLOUD/host" ;;
fetch) ;;
*)
  for word; do case $word in --command=*) command=${word#--command=} ;; esac; done
  cd "$CLOUD/host" && HOME=$PWD bash -c "$command"
  ;;
esac
