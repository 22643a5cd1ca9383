#!/usr/bin/env bash
# `make locks`: pins every package that requirements.txt, requirements-current.txt and the groups of pyproject.toml need, with
# the hashes of its files, for all their Pythons and systems. What is pinned already stays, unless another version is asked
# for; UPGRADE=1 takes the newest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv==0.13.9

# Writes the pins of requirements, that a Python and all later ones can use.
lock() { # NAME PYTHON ARGUMENTS
  "$tools/bin/uv" pip compile --quiet --no-config --universal --python-version "$2" --generate-hashes --no-annotate \
    --custom-compile-command "make locks" ${UPGRADE:+--upgrade} --output-file "locks/$1.txt" "${@:3}"
}

lock requirements 3.9 requirements.txt --group dev
lock requirements-current 3.10 requirements-current.txt --group dev
lock requirements-install 3.9 --group install
# What the extras add to them.
lock requirements-gpu 3.9 - --constraint locks/requirements.txt <<< "tensorflow[and-cuda]"
lock requirements-current-gpu 3.10 - --constraint locks/requirements-current.txt <<< "tensorflow[and-cuda]"
extra() { sed -n '/^'"$1"' = \[/,/^\]/s/^ *"\(.*\)",$/\1/p' pyproject.toml; } # NAME
onnx=$(extra onnx)
lock requirements-onnx 3.9 - --constraint locks/requirements.txt <<< "$onnx"$'\nonnx<1.18; python_version >= "3.10"'
lock requirements-current-onnx 3.10 - --constraint locks/requirements-current.txt <<< "$onnx"
lock requirements-current-keras-hub 3.11 - --constraint locks/requirements-current.txt <<< "$(extra keras-hub)"
