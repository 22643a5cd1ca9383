"""The line that names the devices of a run, and the warning of a GPU that is not used. The GPUs are
made up.
"""

import os
import platform
import re
import types

import pytest
import tensorflow as tf

import cpc_tf
from cpc_tf.core import devices
from cpc_tf.core.settings import unflatten
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.training.session import open_run


@pytest.fixture
def machine(monkeypatch):
    """Makes TensorFlow see GPUs of these names, and an NVIDIA driver or none."""

    def make(names=(), driver=True):
        gpus = [
            tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(len(names))
        ]
        monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
        details = dict(zip(gpus, names))
        monkeypatch.setattr(
            tf.config.experimental, "get_device_details", lambda gpu: {"device_name": details[gpu]}
        )
        monkeypatch.setattr(devices, "has_driver", lambda: driver)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return make


def strategy(kind, count, replicas=0):
    """As much of a strategy as the line needs."""
    names = tuple(
        f"/job:localhost/replica:0/task:0/device:{kind}:{index}" for index in range(count)
    )
    return types.SimpleNamespace(
        extended=types.SimpleNamespace(worker_devices=names), num_replicas_in_sync=replicas or count
    )


@pytest.mark.parametrize(("names", "used", "line"), [
    (["NVIDIA L4"], strategy("GPU", 1), "1 GPU (NVIDIA L4)"),
    (["NVIDIA L4"] * 2, strategy("GPU", 1), "1 GPU of 2 (NVIDIA L4)"),
    (["Tesla T4", "NVIDIA L4"], strategy("GPU", 2), "2 GPUs (NVIDIA L4, Tesla T4)"),
    (["NVIDIA L4"] * 4, strategy("GPU", 4, 8), "4 GPUs (NVIDIA L4) in this process, 8 in all"),
    ([], strategy("TPU", 8), "8 TPU cores"),
    ([], strategy("CPU", 2), "2 logical CPUs (AVX2, 1 core)"),
])  # fmt: skip
def test_the_line_names_the_devices_that_are_used(names, used, line, machine, monkeypatch):
    machine(names)
    monkeypatch.setattr(devices, "cores", lambda: [3])
    monkeypatch.setattr(devices, "_processor_flags", lambda: ["avx2"])
    xla = "on" if "TPU" in line else "off"
    assert devices.describe(used) == f"devices: {line}; precision float32; XLA {xla}"
    assert (
        devices.describe(used, "bfloat16", True) == f"devices: {line}; precision bfloat16; XLA on"
    )


def test_run_starts_with_device_line_and_warnings(tmp_path, machine, caplog, capsys, monkeypatch):
    """Of a driver that is not used, and of a precision that the processor emulates."""
    machine()
    (tmp_path / "cpuinfo").write_text("flags : avx2\n")
    monkeypatch.setattr(devices, "_CPUINFO", f"{tmp_path}/cpuinfo")
    values = {
        "workdir": f"{tmp_path}/run",
        "strategy": "single",
        "precision": "float16",
        "xla": "on",
    }
    with open_run(unflatten(PretrainConfig, values), "pretrain"):
        line = r"devices: 1 CPU \(\S+, \d+ cores?\); precision float16; XLA on\n"
        assert re.fullmatch(line, capsys.readouterr().out)
    assert (
        "this machine has an NVIDIA driver, but TensorFlow finds no GPU and computes on the CPU: "
        in caplog.text
    )
    assert caplog.text.count("a run with --precision=float32 takes about a third of the time") == 1


@pytest.mark.parametrize(("flags", "kind", "precision", "warned"), [
    ("fpu avx avx2", "CPU", "bfloat16", True),
    ("fpu avx avx2", "CPU", "float32", False),
    ("fpu avx avx2 avx512f", "CPU", "bfloat16", False),
    ("fpu avx avx2", "GPU", "bfloat16", False),
    (None, "CPU", "bfloat16", False),  # not x86, or not Linux
])  # fmt: skip
def test_emulated_precision_is_warned_about(flags, kind, precision, warned, tmp_path, monkeypatch):
    if flags:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\n")
    monkeypatch.setattr(devices, "_CPUINFO", f"{tmp_path}/cpuinfo")
    warning = devices.slow_precision(strategy(kind, 1), precision)
    assert warning.startswith(f"--precision={precision}: this processor has no AVX-512") is warned
    assert bool(warning) is warned


@pytest.mark.parametrize(("names", "driver", "hidden", "warned"), [
    ((), True, None, True),
    ((), True, "", False),
    ((), True, "-1", False),
    ((), False, None, False),
    (["NVIDIA L4"], True, None, False),
])  # fmt: skip
def test_unused_gpu_warning_only_for_usable_gpus(
    names, driver, hidden, warned, machine, monkeypatch
):
    machine(names, driver)
    if hidden is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert bool(devices.unused_gpu()) is warned


@pytest.mark.parametrize(
    ("answers", "there"), [("echo GPU 0", True), ("exit 9", False), (None, False)]
)
def test_a_driver_is_found_by_its_tool(answers, there, tmp_path, monkeypatch):
    """Where there are no device files, as under WSL."""
    if answers:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{answers}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(devices.glob, "glob", lambda pattern: [])
    assert devices.has_driver() is there
    monkeypatch.setattr(devices.glob, "glob", lambda pattern: ["/dev/nvidia0"])
    assert devices.has_driver()


@pytest.mark.slow
def test_setup_tries_each_gpu_or_gives_advice(machine, monkeypatch, capsys):
    compute_on = devices.compute_on
    compute_on("/device:CPU:0")
    machine()
    with pytest.raises(SystemExit, match="finds no GPU: .*; make GPU=0 sets up without"):
        devices.main()
    machine(["NVIDIA L4", "Tesla T4"])
    tried = []
    monkeypatch.setattr(devices, "compute_on", tried.append)
    devices.main()
    assert tried == ["/device:GPU:0", "/device:GPU:1"]
    assert (
        capsys.readouterr().out.splitlines()[1]
        == "GPU: Tesla T4, a test product of two matrices ran on it"
    )
    # which is not there
    monkeypatch.setattr(devices, "compute_on", lambda device: compute_on("/device:GPU:7"))
    with pytest.raises(
        SystemExit, match=r"NVIDIA L4: /device:GPU:7 cannot multiply .* \(.*\); see docs/scale.md"
    ):
        devices.main()


@pytest.mark.parametrize(
    ("before", "after"), [((None,) * 3, ("true", "1", "3")), (("false", "0", "0"),) * 2]
)
def test_tensorflow_is_set_up_unless_someone_has(before, after, monkeypatch):
    """A GPU's memory as needed, oneDNN on x86, no notices."""
    names = ("TF_FORCE_GPU_ALLOW_GROWTH", "TF_ENABLE_ONEDNN_OPTS", "TF_CPP_MIN_LOG_LEVEL")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    for name, value in zip(names, before):
        monkeypatch.setenv(name, value or "")
        if not value:
            monkeypatch.delenv(name)
    cpc_tf.prepare_environment()
    assert tuple(map(os.environ.get, names)) == after
