"""sdist -> wheel -> installed: nothing is missing or too much, and it finds its presets."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from packaging.requirements import Requirement

import cpc_tf
from tests.binaries import ROOT

pytestmark = pytest.mark.slow
BUILD = (
    "import sys; from setuptools import build_meta; print(getattr(build_meta,"
    " sys.argv[1])(sys.argv[2]))"
)


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
    """A folder with the package installed from the wheel that the sdist gives, without its
    dependencies.
    """
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
    """The files below a folder, also behind links."""
    found = set()
    for folder, _, names in os.walk(root, followlinks=True):
        found |= {os.path.relpath(os.path.join(folder, name), root) for name in names}
    return {name for name in found if not name.endswith(".pyc")}


def test_wheel_holds_exactly_the_expected_files(installed):
    wanted = {f"cpc_tf/{name}" for name in files(ROOT / "cpc_tf")} | {"bin/cpc-tf"}
    assert wanted == {name for name in files(installed) if ".dist-info/" not in name}
    assert wanted > {
        "cpc_tf/export/run.py",
        "cpc_tf/flags/photos/pretrain.flags",
        "cpc_tf/modules/imagenette_128px/variables/variables.index",
    }
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


def test_ranges_hold_the_pinned_versions(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    assert f"\nVersion: {cpc_tf.__version__}\n" in metadata.read_text()
    lines = re.findall(r"^Requires-Dist: (.*)$", metadata.read_text(), re.MULTILINE)
    needed = [Requirement(line) for line in lines]
    ranges = {each.name: each.specifier for each in needed if not each.marker}
    assert not [name for name, versions in ranges.items() if "==" in str(versions)]
    for file in ("requirements.txt", "requirements-current.txt"):
        pins = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / file).read_text(), re.MULTILINE))
        for name in ranges.keys() & pins.keys():
            assert ranges[name].contains(pins[name]), (file, name)
    assert set(ranges) <= pins.keys() | {"setuptools"}, (
        "the current environment does not install this"
    )
    assert "pytest" not in {each.name for each in needed}


@pytest.mark.parametrize(("lock", "groups"), [
    ("requirements", ["dev"]),
    ("requirements-current", ["dev"]),
    ("requirements-install", ["install"]),
    ("requirements-gpu", []),
    ("requirements-current-gpu", []),
    ("requirements-onnx", []),
    ("requirements-current-onnx", []),
    ("requirements-current-keras-hub", []),
])  # fmt: skip
def test_locks_hold_pins_with_hashes_and_no_host(lock, groups):
    """`make locks` was run after the last change of requirements or groups."""
    pin = re.compile(r"^([\w-]+)(?:\[[\w-]+\])?==([\w.]+)", re.MULTILINE)
    asked = ""
    if (ROOT / f"{lock}.txt").exists():
        asked += (ROOT / f"{lock}.txt").read_text().replace("_", "-")
    project = (ROOT / "pyproject.toml").read_text()
    for group in groups:
        [entries] = re.findall(rf"^{group} = \[(.*?)\]", project, re.MULTILINE | re.DOTALL)
        asked += "\n" + "\n".join(re.findall(r'"([^"]+)"', entries))
    locked = (ROOT / "locks" / f"{lock}.txt").read_text()
    assert {*pin.findall(asked)} <= {*pin.findall(locked)}
    assert "://" not in locked
    hashes = re.findall(r"^\S+==.*\\\n    --hash=sha256:", locked, re.MULTILINE)
    assert len(pin.findall(locked)) == len(hashes) > 0


def test_a_checkout_works_from_any_folder(source, tmp_path):
    """Installed as `make setup` does it, the package stays where it is."""
    with zipfile.ZipFile(build("editable", source, tmp_path)) as wheel:
        wheel.extractall(tmp_path / "site")
    code = "import site; site.addsitedir('site'); import cpc_tf; print(cpc_tf.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.strip() == str(source / "cpc_tf/__init__.py"), done.stderr


def test_it_finds_its_presets_and_encoders(installed):
    """CI's script also pre-trains, which builds the operations, exports and embeds with it, in an
    empty environment.
    """
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
