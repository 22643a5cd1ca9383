"""`pip install .`: everything the package needs is installed, and the binaries run from there."""

import os
import shutil
import subprocess
import sys

import pytest

from tests import samples
from tests.binaries import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the installed package, without its dependencies."""
    room = tmp_path_factory.mktemp("packaging")
    source = room / "source"
    source.mkdir()
    for name in ("cpc_tf", "export", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [ROOT / "pyproject.toml", ROOT / "README.md", ROOT / "LICENSE", *ROOT.glob("requirements*.txt")]:
        shutil.copy(path, source)
    options = ["--quiet", "--no-deps", "--no-build-isolation", f"--target={room / 'site'}"]
    command = [sys.executable, "-m", "pip", "install", *options, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return room / "site"


def test_nothing_is_left_out_and_nothing_else_is_in(installed):
    def files(root):
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"}

    assert {f"cpc_tf/{name}" for name in files(ROOT / "cpc_tf")} == {
        name for name in files(installed) if ".dist-info/" not in name
    }


def test_each_environment_is_an_extra(installed):
    (metadata,) = installed.glob("*.dist-info/METADATA")
    text = metadata.read_text()
    assert 'Requires-Dist: tensorflow==2.15.1; extra == "classic"' in text
    assert 'Requires-Dist: tf-keras==2.21.0; extra == "current"' in text
    assert 'Requires-Dist: tensorflow[and-cuda]==2.15.1; extra == "classic-gpu"' in text
    assert 'Requires-Dist: tensorflow[and-cuda]==2.21.0; extra == "current-gpu"' in text
    assert 'Requires-Dist: tf-keras==2.21.0; extra == "current-gpu"' in text
    assert "pytest" not in text


def test_the_binaries_run_from_there(installed, tmp_path):
    """Operations built from the installed sources, the card from the installed template."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "CPC_TF_CACHE": str(tmp_path / "cache")}

    def run(module, *flags):
        command = [sys.executable, "-m", module, *flags]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("cpc_tf.pretrain", *samples.PRETRAIN, "--train_steps=2", "--data_dir=data", "--workdir=run")
    assert "fresh process" in run("cpc_tf.export", "--workdir=run", "--output=hub")
    assert (tmp_path / "hub/README.md").exists()
    assert len(list((tmp_path / "cache").glob("*.so"))) == 2
    run("cpc_tf.report", "--runs=.", "--output=report")
    assert (tmp_path / "report/report.html").exists()
