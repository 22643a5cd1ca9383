"""Setting up for a GPU, and the demo on one: with a made-up driver, and a made-up Python that
installs nothing.
"""

import os
import subprocess

import pytest

from cpc_tf.core import devices
from tests.binaries import ROOT

# Makes a virtual environment that holds itself, logs what else it is asked for, and fails at what
# FAILS names.
PYTHON = """#!/bin/bash
case "$*" in
  -V) echo "Python 3.11.9" ;;
  "-c "*) echo 3.11 ;;
  "-m venv --clear "*) rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  *) echo "$*" >> LOG; [[ "$*" != *"${FAILS:-nothing}"* ]] ;;
esac
"""
DRIVER = (
    "#!/bin/sh\n"
    '[ "$1" = -L ] && for i in GPUS; do echo "GPU $i: NVIDIA L4 (UUID: GPU-$i)"; done'
    " || printf '%s\\n' GPUS\n"
)


@pytest.fixture
def machine(tmp_path):
    """Runs a command in the repository, on a machine with so many GPUs."""
    tools = tmp_path / "bin"
    tools.mkdir()

    def write(name, text):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)

    write("python3", PYTHON.replace("LOG", str(tmp_path / "log")))

    def run(*command, gpus=0, **environment):
        ids = " ".join(map(str, range(gpus)))
        write(
            "nvidia-smi",
            DRIVER.replace("GPUS", ids) if gpus else "#!/bin/sh\necho failed; exit 9\n",
        )
        inherited = {"PATH": f"{tools}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
        return subprocess.run(
            command, cwd=ROOT, env={**inherited, **environment}, capture_output=True, text=True
        )

    return run


@pytest.fixture
def make(machine, tmp_path):
    """Runs make; returns its output, what pip and Python were asked for since the last call, and
    what is installed.

    Runs are in a folder of the test: a demo that was run in this tree changes nothing.
    """

    def run(*arguments, **environment):
        (tmp_path / "log").write_text("")
        done = machine(
            "make", f"VENV={tmp_path}/venv", f"RUN={tmp_path}/run", *arguments, **environment
        )
        marker = tmp_path / "venv/installed"
        return (
            done,
            (tmp_path / "log").read_text(),
            marker.read_text().strip() if marker.exists() else None,
        )

    return run


WITH_CUDA = (
    "--no-deps --require-hashes --no-build-isolation -r locks/{0}.txt -r locks/{0}-gpu.txt\n".format
)
TRIED = "-m cpc_tf.core.devices\n"


@pytest.mark.parametrize(("arguments", "machine_of", "installed", "asked", "said"), [
    ([], {}, "classic cpu", [], ""),
    ([], {"gpus": 1}, "classic gpu", [WITH_CUDA("requirements"), TRIED],
     "with CUDA's libraries for a GPU (about"),
    (["ENVIRONMENT=current"], {"gpus": 1}, "current gpu",
     [WITH_CUDA("requirements-current"), TRIED], "CUDA's"),
    # a GPU that cannot be used ends it
    ([], {"gpus": 1, "FAILS": "cpc_tf.core.devices"}, None, [TRIED], ""),
    (["GPU=1"], {}, "classic gpu", [WITH_CUDA("requirements")],
     "GPU: not tried, there is no NVIDIA driver here"),
    (["GPU=2"], {}, None, [], "error: GPU=2: must be 1 (with CUDA's libraries) or 0 (without)\n"),
])  # fmt: skip
def test_what_a_set_up_installs_and_tries(arguments, machine_of, installed, asked, said, make):
    if devices.has_driver() and not machine_of:
        pytest.skip("this machine has a driver")
    done, found, there = make("setup", *arguments, **machine_of)
    assert (done.returncode, there) == (0 if installed else 2, installed)
    assert [text for text in asked if text not in found] == []
    assert said in done.stdout + done.stderr
    assert ("gpu" in found) is bool(asked)
    assert found.endswith(TRIED) is (TRIED in asked)
    assert bool(found) is (arguments != ["GPU=2"])


def test_the_choice_is_remembered_and_can_be_changed(make):
    for arguments, gpus, sets_up, wanted in [
        (["GPU=0", "ENVIRONMENT=current"], 1, True, "current cpu"),
        ([], 1, False, "current cpu"),
        (["GPU=0"], 1, False, "current cpu"),
        (["GPU=1"], 1, True, "current gpu"),  # of the same environment
        (["GPU=1"], 1, False, "current gpu"),
        ([], 0, False, "current gpu"),
        (["ENVIRONMENT=classic", "GPU=1"], 1, True, "classic gpu"),
    ]:
        _, asked, installed = make("setup", *arguments, gpus=gpus)
        assert (bool(asked), installed) == (sets_up, wanted), arguments


@pytest.fixture
def demo(make, tmp_path):
    """What the demo would run."""

    def run(installed, *arguments, **environment):
        (tmp_path / "venv").mkdir(exist_ok=True)
        (tmp_path / "venv/installed").write_text(installed)
        return make("-n", "demo", *arguments, **environment)[0].stdout

    return run


@pytest.mark.parametrize(("chosen", "gpu"), [({}, "0"), ({"CUDA_VISIBLE_DEVICES": "3,1"}, "3,1")])
def test_the_demo_takes_one_gpu(make, tmp_path, chosen, gpu):
    shown = "include Makefile\ndemo: show\nshow: ; @echo on $$CUDA_VISIBLE_DEVICES\n"
    (tmp_path / "show").write_text(shown)
    report = f"--old-file={tmp_path}/run/report/report.html"  # as if it had been made
    done, *_ = make("-f", tmp_path / "show", report, "demo", **chosen)
    assert f"on {gpu}\n" in done.stdout


@pytest.mark.parametrize(("flags", "gpus", "float32"), [
    ("flags : fpu avx2", 0, True),
    ("flags : fpu avx2 avx512f", 0, False),
    ("flags : fpu avx2", 1, False),
    ("Features : fp asimd", 0, False),  # not x86
])  # fmt: skip
def test_the_demo_does_not_emulate_bfloat16(demo, tmp_path, flags, gpus, float32):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")
    dry = demo("classic gpu", f"CPUINFO={tmp_path}/cpuinfo", gpus=gpus)
    assert "flags/photos/pretrain.flags" in dry
    assert ("flags/photos/pretrain.flags --precision=float32" in dry) is float32
