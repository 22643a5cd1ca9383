import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.objectives.base import NoSettings
from cpc_tf.objectives.rotation import Rotation

pytestmark = pytest.mark.usefixtures("tiny_encoder")
IMAGES = np.random.default_rng(0).integers(0, 256, [3, 8, 8, 3], dtype=np.uint8)


def model(precision="float32"):
    return Rotation(make_encoder(EncoderConfig(encoder="small"), precision), NoSettings(), precision)


def test_loss_and_accuracy_are_numpys():
    rotation = model()
    output = rotation(IMAGES)
    kernel, bias = (weight.numpy() for weight in rotation.head.trainable_variables)
    losses, correct = [], []
    for image in IMAGES:
        latents = rotation.encode(np.stack([np.rot90(image, turns) for turns in range(4)])).numpy()
        for turns, logits in enumerate(latents @ kernel + bias):
            losses.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[turns])
            correct.append(logits.argmax() == turns)
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=1e-4)
    assert float(output.metrics["accuracy"]) == pytest.approx(np.mean(correct))
    np.testing.assert_allclose(output.latents, rotation.encode(IMAGES), atol=1e-5)


def test_chance_level_is_the_log_of_four():
    rotation = model("bfloat16")
    output = rotation(np.full([2, 8, 8, 3], 128, np.uint8), training=True)  # nothing to see
    assert output.loss.dtype == output.latents.dtype == tf.float32
    kernel, _ = rotation.head.trainable_variables
    kernel.assign(tf.zeros_like(kernel))
    assert float(rotation(IMAGES).loss) == pytest.approx(np.log(4), rel=1e-6)
