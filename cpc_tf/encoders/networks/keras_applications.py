"""Networks of Keras Applications as encoders: pixels in [0, 1] in, the same endpoints as ours out.

Weights are those of Keras, from its cache or downloaded by Keras, or arrays of a file. A network is
always built from its name: a file of Keras may hold a whole model, whose building can run code, and
of it nothing but arrays is read.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from cpc_tf.core.files import reason
from cpc_tf.core.keras import keras, policy
from cpc_tf.core.settings import ConfigError, Settings
from cpc_tf.core.texts import shown
from cpc_tf.encoders.card import RANGES
from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks import IMAGENET, KERAS, NETWORKS
from cpc_tf.encoders.networks.keras_weights import read_weights

_CACHE = os.path.join("~", ".keras", "models")
# Files that have another name in Keras' cache than in their address.
_CACHED = {
    "NASNet-mobile-no-top.h5": "nasnet_mobile_no_top.h5",
    "NASNet-large-no-top.h5": "nasnet_large_no_top.h5",
}
# Variances that divide the pixels of EfficientNetB0 to B7 a second time; see `_normalization`.
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


class KerasNetwork(Network):
    """A network of Keras Applications without its classifier; see `Network`.

    'features' are pooled as Keras pools them with pooling='avg': the mean of 'feature_map', in
    ConvNeXt with a layer norm after it.

    Batch norm always uses its stored statistics, and nothing is dropped, in training too: of few
    images or of the patches of one image the statistics would be others than those of the weights,
    and the results would depend on the number of devices. Scale and offset are trained.

    Args:
      config: its `encoder` is 'keras:NAME'.
      precision: see `Network`.
      weights: IMAGENET, or a file of weights; '': new ones.

    Raises:
      ConfigError: the weights cannot be downloaded, or the file is not of this network.
    """

    def __init__(
        self,
        config: Settings,
        precision: str = "float32",
        name: str = "encoder",
        weights: str = "",
    ):
        super().__init__(config, precision, name)
        self._autocast = False  # Keras would round the pixels to half precision
        entry = NETWORKS[config.encoder]
        text = f"{config.encoder}:{weights}" if weights not in ("", IMAGENET) else config.encoder

        # The network that Keras builds, with its weights.
        with _global_policy(precision), _download_refused(config.encoder):
            network = self.build_model(IMAGENET if weights == IMAGENET else None, entry.side)
        if weights not in ("", IMAGENET):
            read_weights(network, weights, text)

        # The same layers from the range of pixels that the network takes to map and features.
        self._pixels = RANGES[entry.pixels]
        self._scale = self._offset = None
        first = network.input
        if config.encoder.startswith(f"{KERAS}EfficientNetB"):
            self._scale, self._offset = _normalization(network)
            first = network.get_layer("stem_conv_pad").input
        pools = [
            layer
            for layer in network.layers
            if isinstance(layer, keras.layers.GlobalAveragePooling2D)
        ]
        with _global_policy(precision):
            inner = keras.Model(first, [pools[-1].input, network.output])
            # Called anew, they take images of any size.
            images = keras.Input([None, None, 3], dtype=tf.float32)
            self.body = keras.Model(images, inner.call(images, training=False))
        for layer in self.body.submodules:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.keeps_statistics = True  # see `has_batch_norm`
        self.feature_dim = network.output.shape[-1]

    def build_model(self, weights: str | None, side: int) -> keras.Model:
        """Returns the network as Keras has it: images [N, side, side, 3] to features [N, D].

        A subclass for a model of another family has a `keras.Model` here whose features come from a
        GlobalAveragePooling2D.

        Args:
          weights: IMAGENET, the weights of Keras, or None: new ones.
          side: of the images, px.
        """
        build = getattr(keras.applications, self.config.encoder.removeprefix(KERAS))
        return build(include_top=False, weights=weights, input_shape=(side, side, 3), pooling="avg")

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """See `Network`; `training` changes nothing."""
        pixels = self._pixels(images)
        if self._scale is not None:
            pixels = pixels * self._scale + self._offset
        maps, features = self.body(pixels, training=False)
        return {
            "feature_map": tf.cast(maps, tf.float32),
            "features": tf.cast(features, tf.float32),
        }


def _normalization(network: keras.Model) -> tuple[tf.Variable, tf.Variable]:
    """Returns scale and offset, float32 [3], that EfficientNetB0 to B7 apply to pixels in [0, 255].

    Keras divides by 255, normalizes by mean and variance of the file, and, if the weights are its
    own, divides by the root of `_DEVIATION` (see keras/src/applications/efficientnet.py). Files
    that begin with these weights have the mean and the variance; the others neither.
    """
    (layer,) = [each for each in network.layers if isinstance(each, keras.layers.Normalization)]
    mean, variance, *_ = (np.float64(values) for values in layer.get_weights())
    scale = 1 / np.sqrt(variance)
    if mean.any():
        scale /= np.sqrt(_DEVIATION)
    return (
        tf.Variable(np.float32(scale / 255), trainable=False, name="scale"),
        tf.Variable(np.float32(-mean * scale), trainable=False, name="offset"),
    )


@contextlib.contextmanager
def _global_policy(precision: str) -> Iterator[None]:
    """Makes Keras' own layers compute in a precision; they take no policy one by one."""
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy(precision))
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


@contextlib.contextmanager
def _download_refused(name: str) -> Iterator[None]:
    """Raises ConfigError, with the address of the file and its place, if Keras cannot download
    it.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):  # where Keras shows the download
            yield
    # Keras raises Exception itself
    except Exception as error:
        address = re.search(r"https?://\S+?(?=:? |$)", str(error))
        if not address:
            raise ConfigError(
                "encoder", shown(name), f"its weights cannot be loaded ({reason(error)})"
            ) from error
        file = os.path.basename(address[0])
        place = os.path.join(_CACHE, _CACHED.get(file, file))
        raise ConfigError(
            "encoder",
            shown(name),
            f"its weights cannot be downloaded; get {address[0]} elsewhere and put it at {place},"
            f" or name it: --encoder={name}:{file}",
        ) from error
