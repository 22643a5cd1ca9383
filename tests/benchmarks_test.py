"""The benchmark of the training step: its arithmetic, its table, its profile."""

import types

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import step_profile, train_step


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
