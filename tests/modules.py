"""One of our modules, made without training: as `cpc-tf export` writes it."""

import json
import pathlib

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.card import EncoderCard, Training
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.export.encoder import HubEncoder, save

GEOMETRY = GeometryConfig(resize=16, image_size=16, patch_size=8, patch_stride=4)
PRETRAINED = Training(
    objective="cpc",
    dataset="photos",
    augment="full",
    seed=4,
    run="pretrain",
    step=7,
    weights="averaged",
)


def write_module(path, settings=None, geometry=GEOMETRY, training=PRETRAINED, growth=1.0):
    """Writes the SavedModel and its encoder.json into a directory; returns the network.

    Kernels before a norm are `growth` times as long as they were drawn.
    """
    keras.utils.set_random_seed(0)
    encoder = make_encoder(settings or EncoderConfig(encoder="tiny"))
    encoder(tf.zeros([1, 16, 16, 3]))
    for layer, _ in encoder.normalized():
        layer.kernel.assign(growth * layer.kernel)
    save(HubEncoder(encoder, geometry), str(path))
    write_card(path, settings or EncoderConfig(encoder="tiny"), geometry, training)
    return encoder


def write_card(path, settings, geometry=GEOMETRY, training=PRETRAINED):
    """Only the encoder.json: enough for an untrained copy."""
    card = EncoderCard(settings, geometry, training, feature_dim=128, parameters=5)
    (pathlib.Path(path) / "encoder.json").write_text(json.dumps(card.to_json()))


class NotForXla(tf.Module):
    """A third-party module: feature maps [N, h, w, 6], by way of text, for which XLA has no
    operations.
    """

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.random.stateless_normal([4, 4, 3, 6], [1, 1]))

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32)])
    def __call__(self, images):
        mean = tf.strings.to_number(tf.strings.as_string(tf.reduce_mean(images)))
        return tf.nn.conv2d(images, self.kernel, 4, "SAME") + mean
