"""The benchmarks of training: what they count and measure."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import memory, train_step

pytestmark = pytest.mark.slow


def test_arithmetic_is_counted_from_shapes():
    def function(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.conv2d(x, w, 2, "SAME")  # [2, 3, 3, 5] of 3 * 3 * 4 products each
            z = tf.matmul(tf.reshape(y, [18, 5]), tf.ones([5, 7]))  # [18, 7] of 5 products each
        return tape.gradient(z, [x, w])

    graph = (
        tf.function(function)
        .get_concrete_function(tf.TensorSpec([2, 6, 6, 4]), tf.TensorSpec([3, 3, 4, 5]))
        .graph
    )
    convolution, product = 2 * (2 * 3 * 3 * 5) * (3 * 3 * 4), 2 * (18 * 7) * 5
    assert train_step.arithmetic(graph) == 3 * convolution + 2 * product


# The preset's pre-training on 2 x 2 patches and, beside it, with a bank, with the `tiny_encoder`.
SMALL = [
    "--resize=28",
    "--image_size=28",
    "--batch_size=2",
    "--directions=1",
    "--context_blocks=1",
    "--context_dim=8",
]
SMALL += [
    "--steps_to_ignore=0",
    "--steps_to_predict=1",
    "--objective=cpc+instance_bank",
    "--instance_bank_negatives=8",
]


def test_a_step_runs_our_operations(tiny_encoder):
    step, graph = train_step.make_step("small", "bfloat16", SMALL)
    assert np.isfinite(step())
    assert train_step.arithmetic(graph) > 1e5
    used = {operation.type for operation in graph.get_operations()}
    used |= {
        node.op for function in graph.as_graph_def().library.function for node in function.node_def
    }
    assert {"CpcNormRelu", "CpcNormReluGrad", "CpcIm2col"} <= used


def test_images_that_fit_are_a_power_of_two():
    """Two programs: 2 GB without images, and 0.25 GB an image."""
    shared = {"batch": 128, "weights": 0.5e9, "variables": 1.5e9, "outputs": 0.5e9}
    points = [
        {**shared, "images": n, "arguments": 0.5e9 + 0.05e9 * n, "temporaries": 0.2e9 * n}
        for n in (4, 8)
    ]
    assert [memory.needed(point) for point in points] == pytest.approx([3e9, 4e9])
    # 90 % of 8, 16, 24, 40 and 80 GB, less 2: room for 20.8, 49.6, 78.4, 136 and 280 images, of a
    # batch of 128.
    assert (
        memory.row("it", points)
        == "| it | 1.5 | 0.5 | 4: 0.8, 8: 1.6 | 0.25 | 16 | 32 | 64 | 128 | 128 |"
    )
    assert [memory.fit(gb * 1e9, 2e9, 1e9) for gb in (2, 3, 4, 10)] == [0, 0, 1, 4]


def test_preset_program_and_its_variable_bytes(tmp_path, tiny_encoder, monkeypatch):
    monkeypatch.setattr(memory, "OF_DATASET", 300)
    words = [
        "--dataset=photos",
        "--encoder=small",
        "--patch_size=16",
        "--patch_stride=12",
        *SMALL,
        "--batch_size=6",
    ]
    found = memory.write_program(str(tmp_path / "program"), 2, words)
    assert found["batch"] == 6
    bank = 4 * 128 * 300
    parameters = (found["weights"] - bank) / 4
    assert parameters == int(parameters) > 1000
    # Adam's two moments and the average of each weight, and Adam's counter and rate; the bank
    # alone.
    assert 0 < found["variables"] - 4 * 4 * parameters - bank <= 16
    assert (tmp_path / "program").stat().st_size > 10_000
