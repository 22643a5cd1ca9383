"""The step of a detector's training: rates, decay, clipping, random draws, the encoder that it
trains.

tests/training/contract_test.py shows that the step learns, compiles, and has one answer in parts
and on replicas.
"""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.detect.config import DetectorSgdConfig
from cpc_tf.detect.trainee import (
    FINE_TUNED,
    FROZEN,
    LOSSES,
    WHOLE,
    DetectorTraining,
    build_detector,
    rate_of,
)
from cpc_tf.training.trainee import BatchPosition
from tests.detect.samples import ORDINARY, SMALL, detector_training, make_tiny, small_detector
from tests.modules import NotForXla, write_module

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _tiny():
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        yield


@pytest.mark.parametrize(
    ("changes", "batch", "rates"),
    [
        (
            {},
            16,
            {0: 0.02 / 100, 49: 0.01, 99: 0.02, 149: 0.02, 150: 0.002, 180: 0.002, 184: 0.0002},
        ),
        ({"warmup_steps": 0}, 4, {0: 0.005, 149: 0.005, 150: 0.0005}),
        ({"rate_batch": 0, "warmup_steps": 0, "rate_drops": ""}, 4, {0: 0.02, 199: 0.02}),
    ],
)
def test_the_rate_is_the_c4_schedules(changes, batch, rates):
    schedule = rate_of(DetectorSgdConfig(**changes), batch, 200)
    for step, rate in rates.items():
        assert float(schedule(tf.constant(step, tf.int64))) == pytest.approx(rate, rel=1e-5), step


@pytest.fixture(scope="module")
def stepped():
    """(metrics, the training after one step)."""
    config = replace(SMALL, encoder_rate_factor=1.0, weight_decay=0.0, clip_norm=0.01)
    training = DetectorTraining(config, small_detector(), tf.distribute.get_strategy(), 10)
    image, size, boxes, labels = ORDINARY
    batch = {
        "image": tf.cast(255 * image, tf.uint8),
        "size": size,
        "boxes": boxes,
        "labels": labels,
    }
    metrics = training.train_step({**batch, "left_out": tf.constant([0, 1])})
    return {name: float(value) for name, value in metrics.items()}, training


def test_gradient_is_clipped_and_norm_and_omissions_reported(stepped):
    metrics, training = stepped
    assert set(metrics) == {*LOSSES, "gradient_norm", "left_out"}
    assert metrics["left_out"] == 0.5
    # After one step the momentum is the gradient times the rate, not rounded to the variable's
    # digits.
    moved = np.sqrt(sum(np.square(momentum).sum() for momentum in training.optimizer.momentums))
    assert moved / SMALL.sgd.learning_rate == pytest.approx(0.01, rel=1e-3)
    assert metrics["gradient_norm"] > 0.1


@pytest.mark.parametrize(("phase", "factor"), [(WHOLE, 0.25), (FROZEN, None), (FINE_TUNED, 1.0)])
def test_kernels_decay_and_encoder_rate_is_scaled(phase, factor, stepped):
    """A phase without the encoder leaves it; one after that has the encoder's rate for all."""
    model = stepped[1].model
    config = replace(SMALL, encoder_rate_factor=0.25, weight_decay=0.1)
    training = DetectorTraining(config, model, tf.distribute.get_strategy(), 10, phase)
    encoder = [] if factor is None else model.encoder_variables
    assert [id(v) for v in training.trained] == [
        id(v) for v in [*encoder, *model.detector_variables]
    ]
    draw = np.random.default_rng(0)
    gradients = [
        draw.normal(size=variable.shape).astype(np.float32) for variable in training.trained
    ]
    for index, (scaled, gradient) in enumerate(
        zip(training.scaled([*map(tf.constant, gradients)]), gradients)
    ):
        variable = training.trained[index]
        decayed = gradient + (0.1 * variable.numpy() if variable.shape.rank > 1 else 0)
        np.testing.assert_allclose(
            scaled, decayed * (factor if index < len(encoder) else 1), rtol=1e-5, atol=1e-6
        )
    rate = float(training.optimizer.learning_rate)
    assert rate == pytest.approx(SMALL.sgd.learning_rate * (0.25 if phase == FINE_TUNED else 1))


def test_seed_step_and_place_give_the_samples(stepped, monkeypatch):
    """The draws that the losses of a step are given: as many kinds as there are seeds, steps and
    places.
    """
    model, drawn = stepped[1].model, []
    monkeypatch.setattr(
        model,
        "training_losses",
        lambda *arguments: drawn.append(arguments[-1]) or dict.fromkeys(LOSSES, 0.0),
    )
    images = tf.zeros([1, 48, 64, 3], tf.uint8)
    for seed, step, first in ((0, 0, 0), (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)):
        training = DetectorTraining(
            replace(SMALL, seed=seed), model, tf.distribute.get_strategy(), 10
        )
        training.losses(
            BatchPosition(tf.constant(first), tf.constant(step, tf.int64)),
            images,
            None,
            None,
            None,
            tf.zeros([1]),
        )
    values = [(*draws.seed.numpy(), int(draws.first)) for draws in drawn]
    assert values[0] == values[1]
    assert len(set(values)) == 4
    assert {draws.batch_size for draws in drawn} == {SMALL.training.batch_size}


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """(path, network) of a module of ours whose kernels grew."""
    path = tmp_path_factory.mktemp("grown") / "hub"
    return path, write_module(path, growth=3.0)


@pytest.mark.parametrize(("kind", "factor"), [("", 1 / 3), ("graph:", 1)])
def test_grown_kernels_are_normalized_only_in_our_network(kind, factor, grown, caplog):
    path, encoder = grown
    kernels = [layer.kernel for layer, _ in encoder.normalized()]
    detector = build_detector(replace(SMALL, encoder=f"{kind}{path}", precision="bfloat16"), 3)
    assert ("--precision=bfloat16: not used by --encoder=graph:" in caplog.text) is (
        kind == "graph:"
    )
    for variable, given in zip(detector.encoder_variables, encoder.trainable_variables):
        shrunk = any(given is kernel for kernel in kernels)
        expected = tf.norm(given) * (factor if shrunk else 1)
        assert float(tf.norm(variable)) == pytest.approx(
            float(expected), rel=0.3 if shrunk else 1e-6
        )


def test_encoder_unsupported_by_xla_trains_without_xla(tmp_path):
    tf.saved_model.save(NotForXla(), str(tmp_path))
    config = replace(SMALL, xla="on", encoder_rate_factor=0.0)
    ours, theirs = (
        detector_training(replace(config, encoder=name)) for name in ("random", str(tmp_path))
    )
    assert ours.compiled(tf.add) is not tf.add
    assert theirs.compiled(tf.add) is tf.add
    images = tf.zeros([2, 48, 64, 3], tf.uint8)
    assert theirs.model.find(images, tf.constant([[48, 64]] * 2)).boxes.shape[0] == 2


def test_untrainable_encoder_is_refused_unless_rate_is_zero(tmp_path):
    module = tf.Module()
    module.__call__ = tf.function(
        lambda images: tf.nn.avg_pool2d(images, 4, 4, "VALID"),
        [tf.TensorSpec([None, None, None, 3])],
        autograph=False,
    )
    tf.saved_model.save(module, str(tmp_path))
    with pytest.raises(
        ConfigError,
        match="since it has no trainable variables; use it frozen .*rate_factor=0",
    ):
        build_detector(replace(SMALL, encoder=str(tmp_path)), 3)
    assert not build_detector(
        replace(SMALL, encoder=str(tmp_path), encoder_rate_factor=0.0), 3
    ).encoder_variables
