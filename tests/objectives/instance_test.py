import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.objectives.base import CandidatePool
from cpc_tf.objectives.others.instance import Instance, InstanceConfig, other_view

pytestmark = pytest.mark.usefixtures("tiny_encoder")
SETTINGS = InstanceConfig(instance_temperature=0.5, instance_dim=6)


def nt_xent(projections, temperature):
    """Equation 1 of Chen et al. 2020 in loops: (loss, accuracy) of [B, 2, T]."""
    z = projections.reshape(-1, projections.shape[-1]).astype(np.float64)
    losses, correct = [], []
    for i in range(len(z)):
        others = [k for k in range(len(z)) if k != i]
        similarity = [
            z[i] @ z[k] / np.linalg.norm(z[i]) / np.linalg.norm(z[k]) / temperature for k in others
        ]
        partner = others.index(i + 1 if i % 2 == 0 else i - 1)
        losses.append(np.log(np.exp(similarity).sum()) - similarity[partner])
        correct.append(np.argmax(similarity) == partner)
    return np.mean(losses), np.mean(correct)


def among(projections, temperature):
    """The loss of projections [B, 2, T] whose negatives are each other's."""
    projections = tf.math.l2_normalize(tf.constant(projections), axis=2)
    return other_view(projections, CandidatePool(projections[None], 0), temperature)


@pytest.mark.parametrize(("batch", "temperature"), [(1, 0.5), (5, 0.5), (8, 0.07)])
def test_loss_is_the_papers_equation(batch, temperature):
    projections = np.random.default_rng(0).normal(0, 3, [batch, 2, 4]).astype(np.float32)
    loss, accuracy = among(projections, temperature)
    wanted = nt_xent(projections, temperature)
    assert float(loss) == pytest.approx(wanted[0], rel=1e-4, abs=1e-6)
    assert float(accuracy) == pytest.approx(wanted[1])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_model_compares_projections(precision):
    model = Instance(make_encoder(EncoderConfig(encoder="small"), precision), SETTINGS, precision)
    views = np.random.default_rng(0).integers(0, 256, [4, 2, 8, 8, 3], dtype=np.uint8)
    output = model(views, training=True)
    assert output.loss.dtype == output.latents.dtype == tf.float32
    assert output.latents.shape == [4, 2, 16]
    wanted = nt_xent(
        model.head(model.hidden(output.latents)).numpy(), SETTINGS.instance_temperature
    )
    assert float(output.loss) == pytest.approx(wanted[0], rel=1e-3)
    assert float(output.metrics["bound"]) == pytest.approx(np.log(7) - wanted[0], abs=1e-2)
