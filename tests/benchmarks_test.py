"""The benchmarks of training: what they count, fit, draw and print."""

import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import exported, scaling, step_profile, train_step, versions
from cpc_tf import cli
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.tasks import TASKS


@pytest.fixture
def _flags(monkeypatch):
    """The benchmark's flags at their defaults, two rounds."""
    for name, value in {"_ROUNDS": 2, "_TORCH": "python", "_SET": []}.items():
        monkeypatch.setattr(train_step, name, types.SimpleNamespace(value=value))


def test_arithmetic_is_counted_from_shapes():
    def function(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.conv2d(x, w, 2, "SAME")  # [2, 3, 3, 5] of 3 * 3 * 4 products each
            z = tf.matmul(tf.reshape(y, [18, 5]), tf.ones([5, 7]))  # [18, 7] of 5 products each
        return tape.gradient(z, [x, w])

    graph = tf.function(function).get_concrete_function(tf.TensorSpec([2, 6, 6, 4]), tf.TensorSpec([3, 3, 4, 5])).graph
    convolution, product = 2 * (2 * 3 * 3 * 5) * (3 * 3 * 4), 2 * (18 * 7) * 5
    assert train_step.arithmetic(graph) == 3 * convolution + 2 * product


@pytest.mark.usefixtures("_flags")
def test_the_table_is_of_ratios_within_rounds(monkeypatch, capsys):
    rounds = iter([1, 2])
    number = 0

    def child(what, precision):
        nonlocal number
        if what == "peak":
            return {"gflops": 100.0}
        if precision == "bfloat16":
            number = next(rounds)
        return {"ms": 100.0 * number, "gflop": 2.0 * number}

    def peer(command, parse=True):
        if "--compile" in command or (number == 1 and "--precision=f32" in command):
            raise train_step.ChildFailed("no PyTorch")
        return {"ms": 300.0 * number}

    monkeypatch.setattr(train_step, "_run_child", child)
    monkeypatch.setattr(train_step, "_run", peer)
    monkeypatch.setattr(train_step, "_train", lambda encoder: {"ms": 125.0 * number})
    train_step._table("small")
    rows = dict(line[2:].split(" |", 1) for line in capsys.readouterr().out.splitlines() if line.startswith("| "))
    assert rows["ours, bfloat16"] == " 150 | 213 | 1.00 | 0.20 |"
    assert rows["ours, bfloat16, files to weights"] == " 188 | 171 | 1.25 | - |"
    assert rows["PyTorch, bfloat16"] == " 450 | 71 | 3.00 | - |"
    assert rows["PyTorch, float32"] == " 600 | 53 | 3.00 | - |"  # of the round in which it did not fail
    assert rows["PyTorch, bfloat16, compiled"] == " - | - | - | - |"


@pytest.mark.usefixtures("_flags")
def test_a_step_and_its_profile(tmp_path):
    step, graph = train_step.make_step("tiny", "bfloat16")
    assert np.isfinite(step())
    assert train_step.arithmetic(graph) > 1e9
    costs = step_profile.profile(step)
    kinds = {cost.kind for cost in costs}
    assert {"CpcNormRelu", "CpcNormReluGrad", "CpcIm2col"} <= kinds
    assert all(one.milliseconds >= other.milliseconds for one, other in zip(costs, costs[1:]))
    step_profile.draw(costs, "title", str(tmp_path / "step.png"))
    assert (tmp_path / "step.png").read_bytes().startswith(b"\x89PNG")


def test_a_line_and_distances_from_it():
    x = np.array([1.0, 2, 4])
    np.testing.assert_allclose(scaling.line(x, 3 * x + 10), [3, 10])
    np.testing.assert_allclose(scaling.distances(x, 3 * x + 10), 0, atol=1e-12)
    assert scaling.distances(np.array([1.0, 2, 3]), np.array([1.0, 2, 6])).max() > 0.2


def test_scaling_prints_and_draws(monkeypatch, tmp_path, capsys):
    def measure(encoder, precision, lines):
        config = cli.parse(PretrainConfig, [f"--flagfile={train_step.PRESET}", f"--encoder={encoder}", *lines])
        patches = config.training.batch_size * config.geometry.grid**2
        return {"ms": 10 + patches / 100, "gflop": {"tiny": 1.0, "small": 2.0, "medium": 9.0}[encoder]}

    monkeypatch.setattr(train_step, "measure", measure)
    monkeypatch.setattr(scaling, "_DRAWING", types.SimpleNamespace(value=str(tmp_path / "scaling.png")))
    scaling.main([])
    printed = capsys.readouterr().out
    assert "| images | 8: 12, 16: 14, 32: 18, 64: 26, 128: 42 | 10 + 0.25 x | 0 % |" in printed
    assert "| patches of an image | 9: 13, 16: 15, 25: 18, 36: 22, 49: 26 | 10 + 0.32 x | 0 % |" in printed
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("task", versions.RUNS)
def test_commands_of_versions_parse(task):
    module, *lines = versions.RUNS[task]
    (config,) = [each.config for each in TASKS.values() if each.module == module]
    cli.parse(config, [*lines, "--workdir=W"])


def test_what_is_no_checkout_is_one_line(tmp_path):
    with pytest.raises(SystemExit, match=f"--before={tmp_path}: is no checkout"):
        versions.compare(str(tmp_path), 1, ["pretrain"])


def test_what_is_no_python_is_one_line():
    with pytest.raises(SystemExit, match="--before_python=no_python: cannot be run"):
        versions.compare(str(versions.AFTER), 1, ["pretrain"], "no_python")


def test_what_is_no_task_is_one_line():
    with pytest.raises(SystemExit, match="--tasks=pretrain,some: 'some' is none of pretrain, "):
        versions.compare(str(versions.AFTER), 1, ["pretrain", "some"])


def test_versions_are_compared_in_turns(monkeypatch, capsys):
    rates = {"before": iter([10, 20, 40]), "now": iter([15, 40, 60])}
    order = []

    def measure(self, task):
        order.append(self.name)
        return {"rate": next(rates[self.name]), "memory": 100.0}

    monkeypatch.setattr(versions.Version, "measure", measure)
    versions.compare(str(versions.AFTER), 3, ["pretrain"])
    assert order == ["before", "now"] * 3
    assert "| pretrain | 20 | 40 | 1.50 | 100 | 100 |" in capsys.readouterr().out


def test_a_version_reports_what_its_run_recorded_last(monkeypatch, tmp_path):
    commands = []

    def run(self, command):
        commands.append(command)
        workdir = pathlib.Path(command[-1].split("=")[1])
        workdir.mkdir(parents=True, exist_ok=True)
        (workdir / "metrics.jsonl").write_text('{"images_per_second": 1}\n{"images_per_second": 7}\n')
        return 123.0

    monkeypatch.setattr(versions.Version, "_run", run)
    version = versions.Version(tmp_path, str(tmp_path), "now")
    assert version.measure("fine-tuning") == {"rate": 7, "memory": 123.0}
    assert [command[0] for command in commands] == ["cpc_tf.pretrain", "export", "cpc_tf.efficient"]


def test_exported_features_are_compared(capsys):
    exported.compare(["tiny"], rounds=2)
    assert "| tiny | " in capsys.readouterr().out
