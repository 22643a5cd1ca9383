"""Label propagation in the training of a classifier: what a step computes, reads and changes."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.efficient.classifier import SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.propagation.config import PropagationConfig
from cpc_tf.efficient.run import prepare
from cpc_tf.training.strategy import make_strategy
from cpc_tf.training.trainee import Rows
from tests import samples
from tests.efficient import classifier_test
from tests.efficient.classifier_test import BATCH

pytestmark = pytest.mark.slow
RATIO = 2
IMAGES, LABELS = BATCH["image"], BATCH["label"]
RANDOM = np.random.default_rng(0)
UNLABELLED = {
    method: tf.constant(RANDOM.integers(0, 256, [len(IMAGES), *views, *IMAGES.shape[1:]], dtype=np.uint8))
    for method, views in {"vat": [RATIO], "uda": [RATIO, 2]}.items()
}
START = Rows(tf.constant(0), tf.constant(5, tf.int64))


def make(method, norm="none", **settings):
    given = {"encoder": "pixels", "propagation": method, "unlabelled_ratio": RATIO, "dropout": 0.5, **settings}
    return classifier_test.make(SUPERVISED, blocks=int(norm != "none"), norm=norm, **given)


@pytest.mark.parametrize("method", UNLABELLED)
def test_the_loss_is_the_mean_of_those_of_its_parts(method, monkeypatch):
    """With dropout, VAT's noise, and several pictures without labels beside each one with a label.

    Whole steps of two replicas are those of tests/conformance_test.py.
    """
    monkeypatch.setattr(PropagationConfig, "pseudo_begin", 0.0)
    trainee = make(method)

    def losses(start, end):
        rows, given = START._replace(first=tf.constant(start)), (IMAGES, LABELS, UNLABELLED[method])
        total, metrics = trainee.losses(rows, *(x[start:end] for x in given))
        assert float(total) == pytest.approx(float(metrics["loss"] + metrics["unlabelled_loss"]))
        return {name: float(value) for name, value in metrics.items()}

    whole, parts = losses(0, len(IMAGES)), [losses(start, start + 2) for start in (0, 2)]
    assert whole["unlabelled_loss"] > 0
    assert {name: np.mean([part[name] for part in parts]) for name in whole} == pytest.approx(whole, rel=1e-4)


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


def test_running_statistics_are_those_of_pictures_with_labels():
    found = []
    for method, unlabelled in (("vat", [UNLABELLED["vat"]]), ("none", [])):
        trainee = make(method, "batch")
        statistics = trainee.classifier.non_trainable_variables
        before = [v.numpy() for v in statistics]
        trainee.losses(START, IMAGES, LABELS, *unlabelled)
        assert all((v.numpy() != old).any() for v, old in zip(statistics, before))
        found.append([v.numpy() for v in statistics])
    for ours, theirs in zip(*found):
        np.testing.assert_array_equal(ours, theirs)


FLAGS = """
    --resize=16 --image_size=16 --crop_area=1 --nomirror --augment=none --encoder=pixels --backbone=tiny
    --batch_size=6 --labels_per_class=2 --held_out=0 --strategy=single --propagation=vat --test_split=val
""".split()


def test_pictures_of_another_folder_come_beside_those_of_the_split_and_only_chosen_labels_are_read(folder, tmp_path):
    more = samples.write_pictures(tmp_path / "more", {"some": 3})
    data = [f"--labelled={folder}", f"--unlabelled={more}", f"--data_dir={tmp_path}/cache"]
    config = cli.parse(EfficientConfig, [*FLAGS, *data, f"--workdir={tmp_path}/run"])
    labels, phases = prepare(config, make_strategy("single"))
    assert phases.inputs.count == 6
    assert phases.inputs.unlabelled.num_examples == 36 + 9 - 3  # three are copies of pictures of the folder

    names = phases.inputs.sources[0].names()
    read = [tf.io.decode_image(tf.io.read_file(f"{folder}/{name}")).numpy() for name in names]
    chosen = {read[i].tobytes(): phases.inputs.sources[0].labels()[i] for i in labels.chosen}
    stream = phases.inputs.training(config, SUPERVISED, "chosen")(0, tf.distribute.InputContext())
    epoch = next(stream.as_numpy_iterator())
    assert set(epoch) == {"image", "label", "unlabelled"}
    assert {image.tobytes(): label for image, label in zip(epoch["image"], epoch["label"])} == chosen
    assert epoch["unlabelled"].shape == (6, 1, 16, 16, 3)
