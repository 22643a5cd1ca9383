#!/usr/bin/env bash
# Makes a virtual environment of one of the two lanes:  ./setup.sh [FOLDER] [LANE] [PYTHON]
# FOLDER: where (.venv). LANE: classic or current; if empty, the one that suits the Python: classic up to 3.11, else current.
# PYTHON: an interpreter; if empty, python3 if it suits, else the newest one that does.
# FOLDER/installed names the lane, and is written last.
set -euo pipefail
folder=${1:-.venv} lane=${2:-} python=${3:-}
NEEDED=4000  # MB of disk

fail() { echo "error: $*" >&2; exit 1; }

version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# The lane of a version of Python, of those that were asked for; nothing if there is none.
lane_of() {
  case "$lane:$1" in
    :3.9 | :3.10 | :3.11 | classic:3.9 | classic:3.10 | classic:3.11) echo classic ;;
    :3.12 | :3.13 | current:3.1[0-3]) echo current ;;
  esac
}

case "$lane" in
  "") suits="3.9 - 3.13" example=python3.12 ;;
  classic) suits="3.9 - 3.11" example=python3.11 ;;
  current) suits="3.10 - 3.13" example=python3.12 ;;
  *) fail "LANE=$lane: must be classic (TensorFlow 2.15) or current (TensorFlow 2.21)" ;;
esac

found=""
names=(python3 python3.13 python3.12 python3.11 python3.10 python3.9 python)
[ -z "$python" ] || names=("$python")
for name in "${names[@]}"; do
  is=$(version "$name") || continue
  chosen=$(lane_of "$is")
  [ -z "$chosen" ] || { python=$name; break; }
  found="$found $name is $is;"
done
[ -n "${chosen:-}" ] || fail "needs Python $suits:${found:- there is no ${python:-python3};} name one: make PYTHON=$example"

mkdir -p "$(dirname "$folder")"
free=$(($(df -Pk "$(dirname "$folder")" | awk 'NR==2 {print $4}') / 1024))
[ "$free" -gt "$NEEDED" ] || fail "only $free MB free on this disk; setting up needs $NEEDED MB"

requirements=requirements.txt
[ "$chosen" = classic ] || requirements=requirements-current.txt
echo "setting up $folder, the $chosen lane with Python $is (about 2.3 GB, a few minutes the first time)"
"$python" -m venv --clear "$folder"
# The pip of older Pythons does not find out in minutes which versions fit together.
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade pip > "$folder/install.log" 2>&1 &&
  "$folder/bin/python" -m pip install --quiet -r "$requirements" -r requirements-dev.txt >> "$folder/install.log" 2>&1 || {
  tail -n 15 "$folder/install.log"
  fail "pip could not install $requirements; all it said: $folder/install.log"
}
"$folder/bin/python" -m pip check
echo "$chosen" > "$folder/installed"
