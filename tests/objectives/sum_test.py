"""The sum of objectives, of which tests/training/contract_test.py and tests/conformance_test.py
train one each.
"""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import views
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.objectives.config import is_objective, settings_class, title
from cpc_tf.objectives.others.vicreg import VICReg
from cpc_tf.objectives.sum import sum_of

pytestmark = pytest.mark.usefixtures("tiny_encoder")
NAMES = ("relative_position", "instance", "instance_bank")
RANDOM = np.random.default_rng(0)


def made(*names):
    settings = settings_class("+".join(names))()
    model = sum_of("+".join(names))(make_encoder(EncoderConfig(encoder="small")), settings)
    model.prepare(images=9, train_steps=1)
    return model


def test_loss_and_gradients_are_sums_updating_the_bank():
    model = made(*NAMES)
    shapes = {
        "relative_position": [2, 3, 3, 8, 8, 3],
        "instance": [2, 2, 8, 8, 3],
        "instance_bank": [2, 1, 8, 8, 3],
    }
    view = {
        name: tf.constant(RANDOM.integers(0, 256, shape, np.uint8))
        for name, shape in shapes.items()
    }
    of_images = {"index": tf.constant([4, 1], tf.int64), "step": 3}
    with tf.GradientTape(persistent=True) as tape:
        output = model(view, training=True, **of_images)
        alone = {
            name: each(view[name], training=True, **(of_images if each.INDEXED else {}))
            for name, each in model.summed.items()
        }
        losses = [each.loss for each in alone.values()]
    assert float(output.loss) == pytest.approx(float(sum(losses)), rel=1e-6)
    assert [float(output.metrics[f"{name}/loss"]) for name in NAMES] == pytest.approx(
        list(map(float, losses))
    )
    assert (
        {"loss", *output.metrics}
        == {"loss", *model.metric_names}
        >= set(model.FIGURES) - {"knn", "effective_rank"}
    )
    np.testing.assert_array_equal(output.latents, alone["relative_position"].latents)
    weights = model.trainable_variables
    assert len({id(weight) for weight in weights}) == len(weights)
    zero = tf.UnconnectedGradients.ZERO
    total = tape.gradient(output.loss, weights, unconnected_gradients=zero)
    for found, *wanted in zip(
        total, *(tape.gradient(loss, weights, unconnected_gradients=zero) for loss in losses)
    ):
        np.testing.assert_allclose(found, sum(wanted), rtol=1e-4, atol=1e-6)
    model.after_step(output.kept, 3)
    bank = model.summed["instance_bank"].bank.values
    after = bank.numpy()
    model.summed["instance_bank"].prepare(images=9, train_steps=1)
    model.summed["instance_bank"].after_step(alone["instance_bank"].kept, 3)
    np.testing.assert_array_equal(after, model.summed["instance_bank"].bank.values)


def test_between_epoch_work_shares_one_encoding_of_images():
    model, encoded, seen = made("deep_cluster", "local_aggregation", "rotation"), [], {}
    for name in ("deep_cluster", "local_aggregation"):
        model.summed[name].between_epochs = lambda epoch, encode_all, name=name: seen.update(
            {name: encode_all()}
        ) or [name]
    anew = model.between_epochs(2, lambda: encoded.append(1) or len(encoded))
    assert seen == {"deep_cluster": 1, "local_aggregation": 1}
    assert anew == ["deep_cluster", "local_aggregation"]


def test_sum_combines_requirements_of_its_objectives(monkeypatch):
    kind = sum_of("byol+rotation+vicreg")
    assert kind.OF_WHOLE_BATCH == "mean and variance in the heads, variances and covariances"
    assert kind.EXCHANGES
    assert not kind.INDEXED
    monkeypatch.setattr(VICReg, "EXCHANGES", False)
    assert not sum_of.__wrapped__("byol+vicreg").EXCHANGES
    monkeypatch.delattr(VICReg, "OF_WHOLE_BATCH")
    with pytest.raises(ConfigError, match="VICReg must say"):
        sum_of.__wrapped__("byol+vicreg")


def test_names_and_titles():
    assert [*map(is_objective, ("cpc", "cpc+rotation", "cpc+labels", "cpc+cpc", "", "+"))] == [
        True,
        True,
        *[False] * 4,
    ]
    assert title("cpc+rotation") == "CPC + Rotation"
    assert (
        views.Together(
            {"a": views.PatchGrid(), "b": views.WholeImage(), "c": views.WholeImage()}
        ).seen
        == "the patches of the grid, each on its own and whole images"
    )
