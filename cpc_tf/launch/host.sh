#!/usr/bin/env bash
# What `cpc-tf launch` runs on the hosts of a TPU. Everything lies in the folder where the code was unpacked:
# log, feed.log, and, once the training has ended for good, its status. While the training lives it holds the file `lock`,
# while a feed is kept running that holds `feed.lock`.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

running() { ! flock --shared --nonblock "${1:-lock}" true; }

case $1 in
install)
  ! running feed.lock || kill -KILL -- "-$(cat feed.pid)" # it has the code of an earlier run
  python3 -m pip install --quiet --disable-pip-version-check -r requirements.txt
  rm -f log # of an earlier run
  ;;

# feed PORT SECRET: starts a feed for those who know what is in the file SECRET, which is started again whenever it ends, and
# returns once it is ready. If one is: nothing.
feed)
  exec 8> feed.lock
  if flock --timeout 2 8; then
    rm -f feed.log
    setsid bash "$here/host.sh" keep "$2" "$3" < /dev/null > /dev/null 2>&1 & # with file 8, the lock
    echo $! > feed.pid
  fi
  exec 8>&-
  until grep -q "^feed: ready" feed.log 2> /dev/null; do
    running feed.lock || {
      tail --lines=5 feed.log >&2
      exit 1
    }
    sleep 0.1
  done
  ;;

keep)
  while true; do
    status=0
    # The first host's training connects to the feeds of all.
    export CPC_TF_FEED_SECRET=$3 TPU_LOAD_LIBRARY=0
    python3 -m cpc_tf feed --port="$2" --address=0.0.0.0 >> feed.log 2>&1 || status=$?
    [ "$status" != 2 ] || break # it cannot work on this host
    sleep 1
  done
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
