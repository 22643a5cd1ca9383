"""Networks that see images as Lab: one of the lightness and one of the colours, or one of the
lightness alone.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import Settings, replace
from cpc_tf.encoders.network import Network, make_encoder
from cpc_tf.encoders.networks import NETWORKS

# `Entry.sees` -> the channels of Lab that each of its networks sees.
CHANNELS = {"lab": (slice(0, 1), slice(1, 3)), "grey": (slice(0, 1),)}
# of linear sRGB (IEC 61966-2-1), divided by the white point D65 of the 2 degree observer
_TO_XYZ = (
    (0.412453 / 0.95047, 0.357580 / 0.95047, 0.180423 / 0.95047),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.08883, 0.119193 / 1.08883, 0.950227 / 1.08883),
)
# L, a and b of the colours of sRGB
_LOWEST = (0.0, -86.2, -107.9)
_HIGHEST = (100.0, 98.3, 94.5)


def to_lab(images: tf.Tensor) -> tf.Tensor:
    """sRGB in [0, 1] -> CIE L*a*b* (D65), float32 [..., 3]; L is in [0, 100], as
    skimage.color.rgb2lab has it.
    """
    images = tf.cast(images, tf.float32)
    # Gradients of both cases are computed: the bounds keep those of the other case finite.
    light = ((tf.maximum(images, 0.04045) + 0.055) / 1.055) ** 2.4
    red, green, blue = tf.unstack(tf.where(images > 0.04045, light, images / 12.92), axis=-1)
    # No matmul, which some accelerators round to 10 bits.
    xyz = tf.stack([row[0] * red + row[1] * green + row[2] * blue for row in _TO_XYZ], -1)
    root = tf.where(xyz > 0.008856, tf.maximum(xyz, 0.008856) ** (1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = tf.unstack(root, axis=-1)
    return tf.stack([116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)], -1)


class Lab(Network):
    """What `Entry.sees` says of RGB images, by one or two networks of the entry `Entry.of`; see
    `Network`.

    'lab': lightness by one, both colours by the other. Every endpoint is that of the lightness,
    then that of the colours: twice as wide as that of one network, `feature_dim` too. 'grey':
    lightness alone, by one network.

    It takes RGB wherever an encoder does. Its networks have one and two input channels, scaled to
    [0, 1].
    """

    def __init__(self, config: Settings, precision: str = "float32", name: str = "encoder"):
        super().__init__(config, precision, name)
        # Keras would round the pixels to half precision, before colours are differences of them
        self._autocast = False
        entry = NETWORKS[config.encoder]
        of = replace(config, encoder=entry.of)
        self.networks = [make_encoder(of, precision) for _ in CHANNELS[entry.sees]]
        self.feature_dim = sum(network.feature_dim for network in self.networks)

    def normalized(self) -> list[tuple[keras.layers.Layer, keras.layers.Layer]]:
        pairs = []
        for network in self.networks:
            pairs += network.normalized()
        return pairs

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """See `Network`; those of the networks, one behind the other."""
        lab = (to_lab(images) - _LOWEST) / tf.subtract(_HIGHEST, _LOWEST)
        parts = []
        for network, channels in zip(self.networks, CHANNELS[NETWORKS[self.config.encoder].sees]):
            network.recompute = self.recompute  # which whoever uses the encoder may have changed
            parts.append(network.endpoints(lab[..., channels], training))
        joined = {}
        for name in parts[0]:
            joined[name] = tf.concat([part[name] for part in parts], -1)
        return joined

    def after(self, endpoint: str) -> Callable[..., tf.Tensor] | None:
        following = [network.after(endpoint) for network in self.networks]
        if None in following:
            return None

        def then(x: tf.Tensor, training: bool = False) -> tf.Tensor:
            parts = tf.split(x, len(following), -1)
            return tf.concat(
                [each(part, training=training) for each, part in zip(following, parts)], -1
            )

        return then
