"""The step of a detector's training: rates, decay, clipping, replicas, the compiler."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.pipeline import detection_pipeline
from cpc_tf.detect.config import DetectorSgdConfig
from cpc_tf.detect.trainee import FINE_TUNED, FROZEN, LOSSES, WHOLE, build_detector, rate_of
from cpc_tf.settings import ConfigError, replace
from tests.data.samples import RECTANGLES, Images, rectangle
from tests.detect.samples import SMALL, detector_training, make_tiny
from tests.modules import NotForXla, write_module

pytestmark = pytest.mark.slow
SOURCE = Images([rectangle(*example) for example in RECTANGLES[:4]])


@pytest.fixture(scope="module", autouse=True)
def _tiny():
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        yield


def batch_of(source, count=2, config=SMALL):
    return next(iter(detection_pipeline.batches(source, config.canvas, global_batch=count, seed=0)))


def one_step(config, batch=None, strategy=None, phase=WHOLE):
    """(metrics, the trainee after a step, its variables before)."""
    training = detector_training(config, strategy, phase=phase)
    before = [variable.numpy() for variable in training.trained]
    metrics = training.train_step(batch or batch_of(SOURCE))
    return {name: float(value) for name, value in metrics.items()}, training, before


@pytest.mark.parametrize(
    ("changes", "batch", "rates"),
    [
        ({}, 16, {0: 0.02 / 100, 49: 0.01, 99: 0.02, 149: 0.02, 150: 0.002, 180: 0.002, 184: 0.0002}),
        ({"warmup_steps": 0}, 4, {0: 0.005, 149: 0.005, 150: 0.0005}),
        ({"rate_batch": 0, "warmup_steps": 0, "rate_drops": ""}, 4, {0: 0.02, 199: 0.02}),
    ],
)
def test_the_rate_is_the_c4_schedules(changes, batch, rates):
    schedule = rate_of(DetectorSgdConfig(**changes), batch, 200)
    for step, rate in rates.items():
        assert float(schedule(tf.constant(step, tf.int64))) == pytest.approx(rate, rel=1e-5), step


@pytest.fixture(scope="module")
def steps():
    """One step each of settings that differ in one thing."""
    changes = {
        "plain": {"encoder_rate_factor": 1.0, "weight_decay": 0.0},
        "factor": {"encoder_rate_factor": 0.25, "weight_decay": 0.0},
        "decay": {"encoder_rate_factor": 1.0, "weight_decay": 0.1},
        "clip": {"encoder_rate_factor": 1.0, "weight_decay": 0.0, "clip_norm": 0.01},
    }
    return {name: one_step(replace(SMALL, **change)) for name, change in changes.items()}


def moved(step):
    """[(variable, how far the step moved it)]: the momentum, which is not rounded to the variable's digits."""
    training = step[1]
    return list(zip(training.trained, (momentum.numpy() for momentum in training.optimizer.momentums)))


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """(path, network) of a module of ours whose kernels grew."""
    path = tmp_path_factory.mktemp("grown") / "hub"
    return path, write_module(path, growth=3.0)


@pytest.mark.parametrize(("kind", "factor"), [("", 1 / 3), ("graph:", 1)])
def test_kernels_that_grew_are_brought_back_in_a_network_of_ours_and_precision_is_not_of_another(
    kind, factor, grown, caplog
):
    path, encoder = grown
    kernels = [layer.kernel for layer, _ in encoder.normalized()]
    detector = build_detector(replace(SMALL, encoder=f"{kind}{path}", precision="bfloat16"), 3)
    assert ("--precision=bfloat16: not used by --encoder=graph:" in caplog.text) is (kind == "graph:")
    for variable, given in zip(detector.encoder_variables, encoder.trainable_variables):
        shrunk = any(given is kernel for kernel in kernels)
        expected = tf.norm(given) * (factor if shrunk else 1)
        assert float(tf.norm(variable)) == pytest.approx(float(expected), rel=0.3 if shrunk else 1e-6)


def test_metrics_are_the_losses_and_what_is_left_out(steps):
    metrics, training, _ = steps["plain"]
    assert set(metrics) == set(training.metric_names) == {*LOSSES, "gradient_norm", "left_out"}
    assert metrics["loss"] == pytest.approx(sum(metrics[name] for name in LOSSES[1:]), rel=1e-6)
    assert all(np.isfinite(value) for value in metrics.values())
    assert metrics["left_out"] == 0
    assert int(training.step.numpy()) == 1


def test_the_encoder_has_a_smaller_rate(steps):
    training = steps["factor"][1]
    encoder = {id(v) for v in training.model.encoder_variables}
    assert 0 < len(encoder) < len(training.model.trainable_variables)
    for (variable, change), (_, whole) in zip(moved(steps["factor"]), moved(steps["plain"])):
        wanted = whole * (0.25 if id(variable) in encoder else 1)
        np.testing.assert_allclose(change, wanted, rtol=1e-3, atol=1e-4 * np.abs(whole).max())


def test_one_phase_keeps_the_encoder_and_the_other_has_its_rate_for_all(steps):
    config = replace(SMALL, encoder_rate_factor=0.25, weight_decay=0.0)
    frozen, tuned = (one_step(config, phase=phase)[1] for phase in (FROZEN, FINE_TUNED))
    whole = [change for _, change in moved(steps["plain"])]
    count = len(tuned.model.encoder_variables)
    assert [v.shape for v in frozen.trained] == [v.shape for v in tuned.trained[count:]]
    for change, wanted in zip(frozen.optimizer.momentums, whole[count:]):
        np.testing.assert_allclose(change, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())
    for change, wanted in zip(tuned.optimizer.momentums, whole):
        np.testing.assert_allclose(change, 0.25 * wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def test_kernels_decay_and_nothing_else(steps):
    for (variable, change), (_, without), old in zip(moved(steps["decay"]), moved(steps["plain"]), steps["decay"][2]):
        decay = -0.01 * 0.1 * old if variable.shape.rank > 1 else 0 * old
        np.testing.assert_allclose(change - without, decay, atol=1e-3 * np.abs(change).max())


def test_the_gradient_is_clipped_on_demand_and_its_norm_reported(steps):
    norms = {}
    for name in ("plain", "clip"):
        norms[name] = np.sqrt(sum(np.square(change).sum() for _, change in moved(steps[name]))) / 0.01
    assert steps["clip"][0]["gradient_norm"] == pytest.approx(norms["plain"], rel=1e-3)
    assert norms["clip"] == pytest.approx(0.01, rel=1e-3)


@pytest.fixture(scope="module")
def hub_dir(grown, tmp_path_factory):
    """A module without a card: it is trained as it is."""
    path = tmp_path_factory.mktemp("hub") / "hub"
    shutil.copytree(grown[0], path, ignore=shutil.ignore_patterns("encoder.json"))
    return str(path)


def test_the_whole_step_and_inference_compile_to_the_same(hub_dir):
    plain, compiled = (detector_training(replace(SMALL, xla=xla, encoder=hub_dir)) for xla in ("off", "on"))
    batch = batch_of(SOURCE)
    step = tf.function(compiled.train_step, autograph=False, jit_compile=True)
    for _ in range(2):
        wanted, metrics = plain.train_step(batch), step(batch)
        for name, value in wanted.items():
            assert float(metrics[name]) == pytest.approx(float(value), rel=1e-3), name
    for ours, theirs in zip(compiled.model.trainable_variables, plain.model.trainable_variables):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(compiled.model.variables, plain.model.variables):
        ours.assign(theirs)
    images = batch["image"], batch["size"]
    for one, other in zip(compiled.compiled(compiled.model.find)(*images), plain.model.find(*images)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_an_encoder_that_xla_cannot_compile_is_trained_without(tmp_path):
    tf.saved_model.save(NotForXla(), str(tmp_path))
    training = detector_training(replace(SMALL, xla="on", encoder=str(tmp_path), encoder_rate_factor=0.0))
    batch = batch_of(SOURCE)
    for _ in range(2):
        assert np.isfinite(tf.function(training.train_step, autograph=False)(batch)["loss"])
    assert training.model.find(batch["image"], batch["size"]).boxes.shape[0] == 2


def test_an_encoder_that_cannot_be_trained_is_refused_but_for_a_rate_of_zero(tmp_path):
    module = tf.Module()
    module.__call__ = tf.function(
        lambda images: tf.nn.avg_pool2d(images, 4, 4, "VALID"), [tf.TensorSpec([None, None, None, 3])], autograph=False
    )
    tf.saved_model.save(module, str(tmp_path))
    with pytest.raises(
        ConfigError, match="cannot be fine-tuned, since it has no trainable variables; train on .*rate_factor=0"
    ):
        build_detector(replace(SMALL, encoder=str(tmp_path)), 3)
    assert not build_detector(replace(SMALL, encoder=str(tmp_path), encoder_rate_factor=0.0), 3).encoder_variables


def test_two_replicas_fine_tune_a_module_together(hub_dir, two_replicas):
    training = detector_training(replace(SMALL, encoder=hub_dir, batch_size=4), two_replicas)
    step = tf.autograph.experimental.do_not_convert(training.train_step)
    before = [v.numpy() for v in training.model.encoder_variables]
    halves = [{name: x[i : i + 2] for name, x in batch_of(SOURCE, 4).items()} for i in (0, 2)]
    batch = two_replicas.experimental_distribute_values_from_function(
        lambda context: halves[context.replica_id_in_sync_group]
    )
    losses = tf.function(lambda x: two_replicas.run(step, (x,))["loss"])(batch).values
    assert float(losses[0]) != float(losses[1])
    for variable, old in zip(training.model.encoder_variables, before):
        one, other = (value.numpy() for value in variable.values)
        np.testing.assert_array_equal(one, other)
        assert np.any(one != old)


def test_seed_and_step_give_the_samples(steps):
    assert steps["factor"][0] == steps["plain"][0]
    metrics, training, _ = one_step(replace(SMALL, seed=1, learning_rate=1e-9))
    assert metrics["rpn_class"] != steps["plain"][0]["rpn_class"]
    assert float(training.train_step(batch_of(SOURCE))["rpn_class"]) != metrics["rpn_class"]
