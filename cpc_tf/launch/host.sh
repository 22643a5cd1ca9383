#!/usr/bin/env bash
# What `cpc-tf launch` runs on the hosts of a TPU. Everything lies in the folder where the code was unpacked:
# log, and, once the training has ended for good, its status. While the training lives it holds the file `lock`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

running() { ! flock --shared --nonblock lock true; }

case $1 in
install)
  python3 -m pip install --quiet --disable-pip-version-check -r requirements.txt
  rm -f log # of an earlier run
  ;;

# start RESTARTS PAUSE TASK WORKDIR COMMAND...: starts the command, which then needs no connection. If it runs: nothing.
start)
  exec 9> lock
  flock --timeout 2 9 || exit 0 # a question whether it runs holds the lock for a moment
  rm -f status
  echo "$4 $5" > title
  setsid bash "$here/host.sh" train "$2" "$3" "${@:6}" < /dev/null > /dev/null 2>&1 & # with file 9, the lock
  echo $! > pid
  ;;

train)
  restarts=$2 pause=$3 failed=0 stopped=
  trap 'stopped=yes' TERM # reaches the command, too, which saves its step and ends
  shift 3
  while true; do
    began=$SECONDS status=0
    "$@" >> log 2>&1 || status=$?
    case $status in 0 | 2 | 3 | 5 | 130 | 143) break ;; esac # done, wrong setting, diverged, no memory, stopped
    [ $((SECONDS - began)) -lt 3600 ] || failed=0
    failed=$((failed + 1))
    [ "$failed" -le "$restarts" ] || break
    echo "launch: ended with status $status; starts again in $pause s ($failed of $restarts)" >> log
    sleep "$pause" || true
    [ -z "$stopped" ] || break
  done
  echo "$status" > status.new
  mv status.new status
  ;;

state)
  if running; then
    echo "launch: running $(cat title)"
  elif [ -e status ]; then
    echo "launch: ended $(cat status) $(stat --format=%s log)"
  fi
  ;;

# follow NUMBER OFFSET PAUSE: prints the log from a byte on, until the training has ended.
follow)
  # gcloud runs a command again if the connection breaks; the log would come twice.
  [ "$(cat followed 2> /dev/null)" != "$2" ] || exit 0
  echo "$2" > followed
  offset=$3 alive=yes
  while [ $alive ]; do
    running || alive=
    size=$(stat --format=%s log 2> /dev/null || echo 0)
    if [ "$size" -gt "$offset" ]; then
      tail --bytes=+$((offset + 1)) log | head --bytes=$((size - offset))
      offset=$size
    fi
    [ -z $alive ] || sleep "$4"
  done
  ;;

# stop SECONDS: ends the training, and waits while it saves.
stop)
  if running; then
    kill -TERM -- "-$(cat pid)"
    flock --shared --timeout "$2" lock true
  fi
  ;;
esac
