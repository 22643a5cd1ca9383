#!/usr/bin/env bash
# Makes a virtual environment:  ./setup.sh [FOLDER] [ENVIRONMENT] [PYTHON] [GPU]
# FOLDER: where, .venv by default.
# ENVIRONMENT: classic (TensorFlow 2.15) or current (TensorFlow 2.21); by default classic up to Python 3.11, else current.
# PYTHON: an interpreter; by default python3 if its version fits, else the newest one that does.
# GPU: 1 to install CUDA's libraries, too, or 0; by default 1 where an NVIDIA driver is.
# FOLDER/installed holds the environment and "gpu" or "cpu", and is written last.
set -euo pipefail
folder=${1:-.venv} environment=${2:-} python=${3:-} gpu=${4:-}

fail() { echo "error: $*" >&2; exit 1; }

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# The device files tell containers that may use a GPU from those that may not; WSL has none, but has nvidia-smi.
has_driver() { compgen -G "/dev/nvidia[0-9]*" > /dev/null || nvidia-smi -L > /dev/null 2>&1; }

# Prints the environment for a version of Python, or nothing if there is none.
environment_of() {
  case "$environment:$1" in
    :3.9 | :3.10 | :3.11 | classic:3.9 | classic:3.10 | classic:3.11) echo classic ;;
    :3.12 | :3.13 | current:3.1[0-3]) echo current ;;
  esac
}

case "$environment" in
  "") suits="3.9 - 3.13" example=python3.12 ;;
  classic) suits="3.9 - 3.11" example=python3.11 ;;
  current) suits="3.10 - 3.13" example=python3.12 ;;
  *) fail "ENVIRONMENT=$environment: must be classic (TensorFlow 2.15) or current (TensorFlow 2.21)" ;;
esac

case "$gpu" in
  "") if has_driver; then gpu=1; else gpu=0; fi ;;
  0 | 1) ;;
  *) fail "GPU=$gpu: must be 1 (with CUDA's libraries) or 0 (without)" ;;
esac

found=""
names=(python3 python3.13 python3.12 python3.11 python3.10 python3.9 python)
[ -z "$python" ] || names=("$python")
for name in "${names[@]}"; do
  is=$(version "$name") || continue
  chosen=$(environment_of "$is")
  [ -z "$chosen" ] || { python=$name; break; }
  found="$found $name is $is;"
done
[ -n "${chosen:-}" ] || fail "needs Python $suits:${found:- there is no ${python:-python3};} name one: make PYTHON=$example"

# venv --clear would empty what the link leads to.
[ ! -L "$folder" ] || fail "$folder is a symbolic link, and a set-up empties the folder; name another one: make VENV=$folder-of-mine"
mkdir -p "$(dirname "$folder")"
free=$(($(df -Pk "$(dirname "$folder")" | awk 'NR==2 {print $4}') / 1024))
needed=4000 size="2.3 GB" device=cpu with="" # MB of disk
[ "$gpu" = 0 ] || needed=14000 size="5 to 7 GB" device=gpu with=", with CUDA's libraries for a GPU"
[ "$free" -gt "$needed" ] || fail "only $free MB free on this disk; setting up needs $needed MB"

requirements=requirements
[ "$chosen" = classic ] || requirements=requirements-current
files=(-r "locks/$requirements.txt")
[ "$gpu" = 0 ] || files+=(-r "locks/$requirements-gpu.txt")
echo "setting up $folder, the $chosen environment with Python $is$with (about $size, a few minutes the first time)"
"$python" -m venv --clear "$folder"
# A line every half minute, so that a slow connection is not taken for a fault.
tell_time() { while sleep 30 > /dev/null 2>&1 && kill -0 $$ 2> /dev/null; do printf 'installing packages: %d:%02d so far\n' $((SECONDS / 60)) $((SECONDS % 60)); done; }
tell_time & clock=$!
trap 'kill $clock 2> /dev/null' EXIT
install() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$@" >> "$folder/install.log" 2>&1; }
# A file of a package is installed only if it is one whose hash is in locks/, and nothing that is not named there. Packages
# without wheels are built by what is installed first, not by what pip would fetch for that. This package stays where it is:
# `import cpc_tf` and the program `cpc-tf` work from any folder.
install --require-hashes -r locks/requirements-install.txt &&
  install --require-hashes --no-build-isolation "${files[@]}" &&
  install --no-build-isolation --editable . || {
  tail -n 15 "$folder/install.log"
  fail "pip could not install ${files[*]}; its output: $folder/install.log"
}
"$folder/bin/python" -m pip check
if [ "$gpu" = 1 ]; then
  if has_driver; then
    "$folder/bin/python" -m cpc_tf.core.devices
  else
    echo "GPU: not tried, there is no NVIDIA driver here"
  fi
fi
echo "$chosen $device" > "$folder/installed"
echo "installed; \`source $folder/bin/activate\`, then \`cpc-tf --help\`"
