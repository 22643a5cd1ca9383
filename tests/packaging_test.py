"""sdist -> wheel -> installed: nothing is missing or too much, and it finds its presets."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
from packaging.requirements import Requirement

import cpc_tf
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
def source(tmp_path_factory):
    """A copy of this checkout without what Git ignores."""
    room, ignored = tmp_path_factory.mktemp("packaging"), (ROOT / ".gitignore").read_text().split()
    left_out = shutil.ignore_patterns(
        ".git", "shared", *(pattern.strip("/") for pattern in ignored)
    )
    shutil.copytree(ROOT, room / "source", ignore=left_out)
    return room / "source"


@pytest.fixture(scope="module")
def unpacked(source):
    """The folder of an sdist."""
    with tarfile.open(build("sdist", source, source.parent)) as archive:
        archive.extractall(source.parent)
    (folder,) = source.parent.glob("cpc_tf-*/")
    return folder


@pytest.fixture(scope="module")
def installed(unpacked):
    """A folder with the package installed from the wheel that the sdist gives, without its dependencies."""
    wheel = build("wheel", unpacked, unpacked.parent)
    site = unpacked.parent / "site"
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-compile",
    ]
    done = subprocess.run(
        [*command, f"--target={site}", str(wheel)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return site


def files(root):
    return {
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


def test_nothing_is_left_out_and_nothing_else_is_in(installed):
    package, presets = files(ROOT / "cpc_tf"), files(ROOT / "flags")
    wanted = (
        {f"cpc_tf/{name}" for name in package}
        | {f"cpc_tf/flags/{name}" for name in presets}
        | {"bin/cpc-tf"}
    )
    encoder = files(ROOT / "modules/imagenette_128px")
    wanted |= {f"cpc_tf/modules/imagenette_128px/{name}" for name in encoder}
    assert wanted == {name for name in files(installed) if ".dist-info/" not in name}
    assert len(list(installed.glob("*.dist-info/licenses/LICENSE"))) == 1


def test_the_sdist_is_whole(source, unpacked):
    made = {name for name in files(source) if ".egg-info/" in name}
    assert files(source) - made <= files(unpacked)
    assert {
        "export/__main__.py",
        "tests/samples.py",
        "flags/photos/pretrain.flags",
        "Makefile",
    } <= files(unpacked)


def test_versions_are_ranges_that_hold_the_pinned_ones_and_each_environment_is_an_extra(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    assert f"\nVersion: {cpc_tf.__version__}\n" in metadata.read_text()
    found = [
        Requirement(line)
        for line in re.findall(r"^Requires-Dist: (.*)$", metadata.read_text(), re.MULTILINE)
    ]
    ranges = {each.name: each.specifier for each in found if not each.marker}
    assert not [name for name, versions in ranges.items() if "==" in str(versions)]
    for environment, file in (
        ("classic", "requirements.txt"),
        ("current", "requirements-current.txt"),
    ):
        pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / file).read_text(), re.MULTILINE))
        assert not [
            name for name in ranges.keys() & pins.keys() if not ranges[name].contains(pins[name])
        ], file
        for extra in (environment, f"{environment}-gpu"):
            given = {
                (each.name, str(each.specifier))
                for each in found
                if f'"{extra}"' in str(each.marker)
            }
            assert given >= {(name, f"=={version}") for name, version in pins.items()}, extra
            assert {versions for name, versions in given if name == "tensorflow"} == {
                f"=={pins['tensorflow']}"
            }, extra
    assert set(ranges) <= pins.keys() | {"setuptools"}, (
        "the current environment does not install this"
    )
    assert "pytest" not in {each.name for each in found}


@pytest.mark.parametrize("sources", [
    ["requirements", "requirements-dev"],
    ["requirements-current", "requirements-dev"],
    ["requirements-gpu"],
    ["requirements-onnx"],
    ["requirements-current-gpu"],
    ["requirements-current-onnx"],
    ["requirements-install"],
])  # fmt: skip
def test_locks_have_what_is_pinned_with_hashes_and_name_no_host(sources):
    """`make locks` was run after the last change of requirements*.txt."""
    pin = re.compile(r"^([\w-]+)(?:\[[\w-]+\])?==([\w.]+)", re.MULTILINE)
    pinned = [
        pin.findall((ROOT / f"{source}.txt").read_text().replace("_", "-")) for source in sources
    ]
    lock = (ROOT / "locks" / f"{sources[0]}.txt").read_text()
    assert {*itertools.chain(*pinned)} <= {*pin.findall(lock)}
    assert "://" not in lock
    assert len(pin.findall(lock)) == len(
        re.findall(r"^\S+==.*\\\n    --hash=sha256:", lock, re.MULTILINE)
    )


def test_it_finds_its_presets_and_encoders(installed):
    """CI's script also pre-trains, which builds the operations, exports and embeds with it, in an empty environment."""
    for words, wanted in (
        ("--help", "cpc-tf pretrain"),
        ("presets", "photos/pretrain_128px"),
        ("embed --help", "imagenette_128px"),
    ):
        command = [sys.executable, str(installed / "bin/cpc-tf"), *words.split()]
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        done = subprocess.run(
            command, env=environment, cwd=installed.parent, capture_output=True, text=True
        )
        assert wanted in done.stdout, done.stderr
