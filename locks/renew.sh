#!/usr/bin/env bash
# `make locks`: pins every package that the requirements*.txt need, with the hashes of its files, for all their Pythons and
# systems. What is pinned already stays, unless the requirements ask for another version; UPGRADE=1 takes the newest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9

# Writes the pins of requirements files, that a Python and all later ones can use.
lock() { # NAME PYTHON ARGUMENTS
  "$tools/bin/uv" pip compile --quiet --no-config --universal --python-version "$2" --generate-hashes --no-annotate \
    --custom-compile-command "make locks" ${UPGRADE:+--upgrade} --output-file "locks/$1.txt" "${@:3}"
}

lock requirements 3.9 requirements.txt requirements-dev.txt
lock requirements-current 3.10 requirements-current.txt requirements-dev.txt
# What is added to them.
for part in gpu onnx; do
  lock "requirements-$part" 3.9 "requirements-$part.txt" --constraint locks/requirements.txt
  lock "requirements-current-$part" 3.10 "requirements-current-$part.txt" --constraint locks/requirements-current.txt
done
lock requirements-install 3.9 requirements-install.txt --constraint requirements-dev.txt
