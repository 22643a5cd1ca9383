"""An encoder as feature maps of whole images: a TF-Hub module of ours or of others, or a new network in its place."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.efficient.config import ClassifierConfig
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.load import module_card
from cpc_tf.encoders.network import Network
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

# The endpoint that is the latents of our modules' patch grid instead of maps of the whole image.
LATENTS = "latents"
PIXELS = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")


class FeatureMaps(keras.layers.Layer):
    """Images float32 [B, S, S, 3] in [0, 1] -> feature maps float32 [B, H, W, D]; vectors become maps of one place.

    Args:
      layer: images -> maps or vectors, or a dict of such.
      endpoint: which of the dict.
    """

    def __init__(self, layer: keras.layers.Layer, endpoint: str):
        super().__init__(name="feature_maps")
        self.layer, self.endpoint = layer, endpoint
        # Traced once, whatever the phases and trials that use this encoder.
        self.encode = tf.function(self._encode, input_signature=[PIXELS], autograph=False)

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        features = self.layer(images, training=training)
        if isinstance(features, dict):
            features = features[self.endpoint]
        return tf.cast(features if features.shape.rank == 4 else features[:, None, None], tf.float32)

    def _encode(self, images: tf.Tensor) -> tf.Tensor:
        """Images uint8 [B, S, S, 3] -> feature maps float32 [B, H, W, D], as in a test."""
        return self(tf.image.convert_image_dtype(images, tf.float32))


class _Endpoints(keras.layers.Layer):
    """All endpoints of a network of ours."""

    def __init__(self, encoder: Network):
        super().__init__(name="endpoints")
        self.encoder = encoder

    def call(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        return self.encoder.endpoints(images, training)


def load_feature_maps(config: ClassifierConfig, image_size: int, seed: int, precision: str = "float32") -> FeatureMaps:
    """The encoder called `config.encoder`, with all its variables.

    Args:
      config: 'encoder', 'endpoint' and, for 'pixels' and 'random', 'backbone'.
      image_size: side of the images it will see, px.
      seed: of new weights.
      precision: of a new network; a module computes as it was exported.

    Raises:
      ConfigError: there is no such module or endpoint, or it does not take images of this size.
    """
    name = config.encoder
    keras.utils.set_random_seed(seed)
    if name == "pixels":
        # The norm that supervised ResNets are made for.
        layer = _Endpoints(make_encoder(EncoderConfig(encoder=config.backbone, norm="batch"), precision))
    elif name == "random":
        layer = _Endpoints(make_encoder(EncoderConfig(encoder=config.backbone), precision))
    elif name.startswith("random:"):
        layer = _Endpoints(make_encoder(EncoderConfig(**module_card(name[len("random:") :])["encoder"]), precision))
    else:
        layer = _module(name, config.endpoint, image_size)
    endpoint = "feature_map" if name == "pixels" else config.endpoint
    try:
        outputs = _outputs(layer, image_size)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ConfigError(
            f"--encoder={name}: does not take images [B, {image_size}, {image_size}, 3] in [0, 1] ({_last_line(error)})"
        ) from error
    if isinstance(outputs, dict) and endpoint not in outputs:
        raise ConfigError(f"--endpoint={endpoint}: --encoder={name} has {', '.join(sorted(outputs))}")
    features = outputs[endpoint] if isinstance(outputs, dict) else outputs
    if features.shape.rank not in (2, 4):
        raise ConfigError(
            f"--endpoint={endpoint}: of shape {features.shape}; maps [B, H, W, D] or vectors [B, D] are needed"
        )
    return FeatureMaps(layer, endpoint)


def _module(name: str, endpoint: str, image_size: int) -> keras.layers.Layer:
    """A TF-Hub module as a layer that may be fine-tuned, with all its endpoints if it has some."""
    if not name:
        raise ConfigError("--encoder= is empty: name a TF-Hub module, e.g. --encoder=runs/photos/hub, or 'pixels'")
    try:
        loaded = hub.load(name)
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ConfigError(f"--encoder={name}: cannot be loaded as a TF-Hub module ({_last_line(error)})") from error
    if endpoint == LATENTS:
        if not hasattr(loaded, "patched"):
            raise ConfigError(f"--endpoint={LATENTS}: --encoder={name} is no module of ours, it has no patch grid")
        return hub.KerasLayer(loaded.patched, trainable=True)
    layer = hub.KerasLayer(loaded, trainable=True, arguments={"return_endpoints": True})
    try:
        _outputs(layer, image_size)
        return layer
    except (ValueError, TypeError):
        return hub.KerasLayer(loaded, trainable=True)  # knows no endpoints: the plain interface


def _outputs(layer: keras.layers.Layer, image_size: int):
    """What the layer gives for images, by shape: traced, not run. Makes its variables."""
    spec = tf.TensorSpec([None, image_size, image_size, 3], tf.float32)
    return tf.function(layer, autograph=False).get_concrete_function(spec).structured_outputs


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
