"""Label propagation: the methods against their papers' formulas in NumPy, on a linear classifier of
images; then what a step of a classifier's training computes, reads and changes.
"""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.settings import replace
from cpc_tf.efficient.classifier import SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.propagation import METHODS, Unlabelled, adversarial
from cpc_tf.efficient.propagation_config import PropagationConfig
from cpc_tf.efficient.run import prepare
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import BatchPosition
from tests import samples
from tests.efficient import classifier_test
from tests.efficient.classifier_test import BATCH

RANDOM = np.random.default_rng(0)
COUNT, SIDE, CLASSES = 5, 2, 3
PICTURES = RANDOM.random([COUNT, SIDE, SIDE, 3])
NOISE = RANDOM.normal(size=PICTURES.shape)
KERNEL = RANDOM.normal(size=[SIDE * SIDE * 3, CLASSES])
CONFIG = PropagationConfig()


def odds(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def kl(p, q):
    return sum(one * (np.log(one) - np.log(other)) for one, other in zip(p, q))


def gradient(function, x, step=1e-5):
    """By differences, in float64."""
    slope = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[place] = step
        slope[place] = (function(x + moved) - function(x - moved)) / (2 * step)
    return slope


def pictures(kernel, views=PICTURES, progress=1.0, noise=NOISE):
    def logits(images):
        return tf.reshape(images, [len(images), -1]) @ kernel

    return Unlabelled(
        tf.constant(views, tf.float32), logits, lambda: tf.constant(noise, tf.float32), progress
    )


def computed(method, config=CONFIG, **given):
    """(loss, metrics, gradient with respect to the kernel)."""
    kernel = tf.constant(KERNEL, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        loss, metrics = METHODS[method].loss(pictures(kernel, **given), config)
    assert set(metrics) == set(METHODS[method].metric_names)
    return (
        float(loss),
        {name: float(value) for name, value in metrics.items()},
        tape.gradient(loss, kernel).numpy(),
    )


def predictions(kernel, x=PICTURES):
    return odds(x.reshape(len(x), -1) @ kernel)


@pytest.mark.parametrize(
    ("progress", "weight"), [(0.0, 0), (0.1, 0), (0.35, 1.5), (0.6, 3), (1.0, 3)]
)
def test_pseudo_labels(progress, weight):
    """Lee 2013, equations 15 and 16: T1 = 100, T2 = 600 of 1000 and a final weight of 3."""
    guessed = predictions(KERNEL).argmax(1)  # stay the same while the kernel is moved

    def wanted(kernel):
        return -weight * np.mean(
            [np.log(p[label]) for p, label in zip(predictions(kernel), guessed)]
        )

    loss, metrics, slope = computed("pseudo_labels", progress=progress)
    assert metrics["pseudo_weight"] == pytest.approx(weight, abs=1e-6)
    assert loss == pytest.approx(wanted(KERNEL), rel=1e-5)
    np.testing.assert_allclose(slope, gradient(wanted, KERNEL), atol=1e-5)


def unit(x):
    return np.stack([each / np.sqrt((each**2).mean()) for each in x])


def disturbances():
    """Miyato et al. 2018, algorithm 1 with K = 1: the direction in which KL rises from the probe,
    by calculus.

    For logits W'x the gradient of KL(p || q(x + r)) with respect to r is W (q - p).
    """
    p, q = predictions(KERNEL), predictions(KERNEL, PICTURES + 0.01 * unit(NOISE))
    return 0.035 * unit(((q - p) @ KERNEL.T).reshape(PICTURES.shape))


def test_the_disturbance_of_vat():
    given = pictures(tf.constant(KERNEL, tf.float32))
    ours = adversarial(given, given.logits(given.views), CONFIG).numpy()
    np.testing.assert_allclose(ours, disturbances(), atol=2e-4)
    np.testing.assert_allclose(np.sqrt((ours**2).mean((1, 2, 3))), 0.035, rtol=1e-5)


def test_vat_and_entropy():
    """Prediction and disturbance are constants of the divergence; the entropy is the mean of the
    pictures'.
    """
    p, moved = predictions(KERNEL), PICTURES + disturbances()

    def change(kernel):
        return np.mean([kl(*pair) for pair in zip(p, predictions(kernel, moved))])

    def entropy(kernel):
        return np.mean([-sum(x * np.log(x) for x in each) for each in predictions(kernel)])

    loss, metrics, slope = computed("vat")
    assert metrics["divergence"] == pytest.approx(change(KERNEL), rel=5e-3)
    assert metrics["entropy"] == pytest.approx(entropy(KERNEL), rel=1e-5)
    assert loss == pytest.approx(change(KERNEL) + entropy(KERNEL), rel=1e-3)
    np.testing.assert_allclose(
        slope, gradient(change, KERNEL) + gradient(entropy, KERNEL), atol=1e-3
    )


def test_constant_prediction_has_no_adversarial_perturbation():
    given = pictures(tf.zeros([SIDE * SIDE * 3, CLASSES]))
    np.testing.assert_array_equal(adversarial(given, given.logits(given.views), CONFIG), 0)


def test_uda():
    """Xie et al. 2019, section 2: sharpened by 0.4, only of predictions above 0.5, no gradient
    through the target.
    """
    given, augmented = (
        PICTURES * np.array([0.01, 1, 1, 0.1, 1])[:, None, None, None],
        RANDOM.random(PICTURES.shape),
    )
    plain = given.reshape(COUNT, -1) @ KERNEL
    sure = odds(plain).max(1) > 0.5
    assert 0 < sum(sure) < COUNT, "the mask shows nothing"

    def wanted(kernel):
        pairs = zip(odds(plain / 0.4), predictions(kernel, augmented), sure)
        return sum(kl(p, q) for p, q, learned in pairs if learned) / COUNT

    loss, metrics, slope = computed("uda", views=np.stack([given, augmented], 1))
    assert metrics["confident"] == pytest.approx(sure.mean())
    assert loss == pytest.approx(wanted(KERNEL), rel=1e-4)
    np.testing.assert_allclose(slope, gradient(wanted, KERNEL), atol=1e-4)


@pytest.mark.parametrize(
    ("method", "weights"),
    [("pseudo_labels", ["pseudo_weight"]), ("vat", ["vat_weight", "entropy_weight"])],
)
def test_weights_are_factors(method, weights):
    twice = replace(CONFIG, **{weight: 2 * getattr(CONFIG, weight) for weight in weights})
    assert computed(method, twice)[0] == pytest.approx(2 * computed(method)[0])


RATIO = 2
IMAGES, LABELS = BATCH["image"], BATCH["label"]
DRAWN = np.random.default_rng(0)
UNLABELLED = {
    method: tf.constant(
        DRAWN.integers(0, 256, [len(IMAGES), *views, *IMAGES.shape[1:]], dtype=np.uint8)
    )
    for method, views in {"vat": [RATIO], "uda": [RATIO, 2]}.items()
}
START = BatchPosition(tf.constant(0), tf.constant(5, tf.int64))


def make(method, norm="none", **settings):
    given = {
        "encoder": "pixels",
        "propagation": method,
        "unlabelled_ratio": RATIO,
        "dropout": 0.5,
        **settings,
    }
    return classifier_test.make(SUPERVISED, blocks=int(norm != "none"), norm=norm, **given)


@pytest.mark.parametrize("method", UNLABELLED)
@pytest.mark.slow
def test_loss_is_the_mean_of_its_parts(method):
    """With dropout, VAT's noise, and several images without labels beside each one with a label.

    Whole steps of two replicas are those of tests/conformance_test.py.
    """
    trainee = make(method)

    def losses(start, end):
        rows, given = START._replace(first=tf.constant(start)), (IMAGES, LABELS, UNLABELLED[method])
        total, metrics = trainee.losses(rows, *(x[start:end] for x in given))
        assert float(total) == pytest.approx(float(metrics["loss"] + metrics["unlabelled_loss"]))
        return {name: float(value) for name, value in metrics.items()}

    whole, parts = losses(0, len(IMAGES)), [losses(start, start + 2) for start in (0, 2)]
    assert whole["unlabelled_loss"] > 0
    assert {name: np.mean([part[name] for part in parts]) for name in whole} == pytest.approx(
        whole, rel=1e-4
    )


@pytest.mark.slow
def test_a_step_compiled_by_xla_is_the_same():
    """But for the noise, and with it the direction in which a prediction changes most."""
    trainee = make("vat", dropout=0.0, xla="on")
    given = {**BATCH, "unlabelled": UNLABELLED["vat"]}
    _, plain = trainee.losses(START, *trainee.inputs(given))
    before = trainee.trained[0].numpy()
    compiled = trainee.strategy.run(tf.function(trainee.train_step, autograph=False), (given,))
    for name in ("loss", "accuracy", "entropy"):
        assert float(compiled[name]) == pytest.approx(float(plain[name]), rel=1e-3)
    assert 0 < float(compiled["divergence"]) < 100
    assert np.abs(trainee.trained[0] - before).max() > 0


@pytest.mark.slow
def test_running_statistics_are_those_of_pictures_with_labels():
    statistics_of = []
    for method, unlabelled in (("vat", [UNLABELLED["vat"]]), ("none", [])):
        trainee = make(method, "batch")
        statistics = trainee.classifier.non_trainable_variables
        before = [v.numpy() for v in statistics]
        trainee.losses(START, IMAGES, LABELS, *unlabelled)
        assert all((v.numpy() != old).any() for v, old in zip(statistics, before))
        statistics_of.append([v.numpy() for v in statistics])
    for ours, theirs in zip(*statistics_of):
        np.testing.assert_array_equal(ours, theirs)


FLAGS = """
    --resize=16 --image_size=16 --crop_area=1 --nomirror --augment=none --encoder=pixels
    --backbone=tiny --batch_size=6 --labels_per_class=2 --held_out=0 --strategy=single
    --propagation=vat --test_split=val
""".split()


@pytest.mark.slow
def test_unlabelled_folder_is_added_and_unchosen_labels_unread(folder, tmp_path):
    more = samples.write_pictures(tmp_path / "more", {"some": 3})
    data = [f"--labelled={folder}", f"--unlabelled={more}", f"--data_dir={tmp_path}/cache"]
    config = cli.parse(EfficientConfig, [*FLAGS, *data, f"--workdir={tmp_path}/run"])
    labels, phases = prepare(config, make_strategy("single"))
    assert phases.inputs.count == 6
    # three are copies of images of the folder
    assert phases.inputs.unlabelled.num_examples == 36 + 9 - 3

    names = phases.inputs.sources[0].names()
    read = [tf.io.decode_image(tf.io.read_file(f"{folder}/{name}")).numpy() for name in names]
    chosen = {read[i].tobytes(): phases.inputs.sources[0].labels()[i] for i in labels.chosen}
    stream = phases.inputs.training(config, SUPERVISED, "chosen")(0, tf.distribute.InputContext())
    epoch = next(stream.as_numpy_iterator())
    assert set(epoch) == {"image", "label", "unlabelled"}
    assert {
        image.tobytes(): label for image, label in zip(epoch["image"], epoch["label"])
    } == chosen
    assert epoch["unlabelled"].shape == (6, 1, 16, 16, 3)
