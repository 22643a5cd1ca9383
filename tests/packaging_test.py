"""sdist -> wheel -> installed: nothing is missing or too much; it finds its presets and builds its operations."""

import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from packaging.requirements import Requirement

from tests.binaries import ROOT

pytestmark = pytest.mark.slow
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(what, source, output):
    """Builds an 'sdist' or a 'wheel' as pip does; returns its path. Needs no network."""
    command = [sys.executable, "-c", BUILD, f"build_{what}", str(output)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of an sdist."""
    room, ignored = tmp_path_factory.mktemp("packaging"), (ROOT / ".gitignore").read_text().split()
    left_out = shutil.ignore_patterns(".git", "shared", *(pattern.strip("/") for pattern in ignored))
    shutil.copytree(ROOT, room / "source", ignore=left_out)
    with tarfile.open(build("sdist", room / "source", room)) as archive:
        archive.extractall(room)
    (folder,) = room.glob("cpc_tf-*/")
    return folder


@pytest.fixture(scope="module")
def installed(unpacked):
    """A folder with the package installed from the wheel that the sdist gives, without its dependencies."""
    wheel = build("wheel", unpacked, unpacked.parent)
    site = unpacked.parent / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", f"--target={site}", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return site


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}


def test_nothing_is_left_out_and_nothing_else_is_in(installed):
    package, presets = files(ROOT / "cpc_tf"), files(ROOT / "flags")
    wanted = {f"cpc_tf/{name}" for name in package} | {f"cpc_tf/flags/{name}" for name in presets} | {"bin/cpc-tf"}
    assert wanted == {name for name in files(installed) if ".dist-info/" not in name}
    assert len(list(installed.glob("*.dist-info/licenses/LICENSE"))) == 1


def test_the_sdist_has_what_the_tests_need(unpacked):
    for name in ("tests/samples.py", "flags/photos/pretrain.flags", "modules/imagenette_128px/saved_model.pb",
                 "docs/quickstart.ipynb", "studies/runner.py", "Makefile", "LICENSE"):  # fmt: skip
        assert (unpacked / name).exists(), name


def test_versions_are_ranges_and_each_environment_is_an_extra(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    text = metadata.read_text()
    plain = re.findall(r"^Requires-Dist: ([^;\n]*)$", text, re.MULTILINE)
    assert "tensorflow<2.22,>=2.15" in plain
    assert not [line for line in plain if "==" in line]
    assert 'Requires-Dist: tensorflow==2.15.1; extra == "classic"' in text
    assert 'Requires-Dist: tf-keras==2.21.0; extra == "current"' in text
    assert 'Requires-Dist: tensorflow[and-cuda]==2.15.1; extra == "classic-gpu"' in text
    assert 'Requires-Dist: tensorflow[and-cuda]==2.21.0; extra == "current-gpu"' in text
    assert 'Requires-Dist: tf-keras==2.21.0; extra == "current-gpu"' in text
    assert "pytest" not in text


def test_the_pinned_versions_lie_in_the_ranges(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    found = map(Requirement, re.findall(r"^Requires-Dist: ([^;\n]*)$", metadata.read_text(), re.MULTILINE))
    ranges = {requirement.name: requirement.specifier for requirement in found}
    for file in ("requirements.txt", "requirements-current.txt"):
        pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / file).read_text(), re.MULTILINE))
        for name in ranges.keys() & pins.keys():
            assert ranges[name].contains(pins[name]), f"{file}: {name}"
    assert set(ranges) <= pins.keys() | {"setuptools"}, "the current environment does not install this"


def test_it_finds_its_presets_and_builds_its_operations(installed, tmp_path):
    """CI's script also pre-trains and exports with the wheel, in an empty environment."""
    quick = tmp_path / "g++"
    quick.write_text('#!/bin/sh\nexec g++ "$@" -O0\n')
    quick.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "CXX": str(quick),
        "CPC_TF_CACHE": str(tmp_path / "cache"),
    }

    def run(*command):
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        return done.stdout

    program = (sys.executable, str(installed / "bin/cpc-tf"))
    assert "cpc-tf pretrain" in run(*program, "--help")
    assert "photos/pretrain_128px" in run(*program, "presets")
    build = "from cpc_tf import augment; from cpc_tf.encoders import operations; "
    run(sys.executable, "-c", build + "augment.LIBRARY.build(); operations.LIBRARY.build()")
    assert len(list((tmp_path / "cache").glob("*.so"))) == 2
