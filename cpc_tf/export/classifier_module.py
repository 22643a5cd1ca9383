"""The TF2 SavedModel of a classifier: images of any size, or their files, to probabilities and names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding import portable
from cpc_tf.data.decoding.decode import IntensityRange, decode
from cpc_tf.data.views import geometry as geo
from cpc_tf.data.views.views import Geometry
from cpc_tf.export.module import BYTES, of_pictures, or_black

ENCODED = tf.TensorSpec([None], tf.string, name="encoded")


@dataclasses.dataclass(frozen=True)
class Classifying:
    """What a run tested: how it shows a picture to its network, and what that makes of it.

    Attributes:
      logits: images uint8 [N, S, S, 3], with S = geometry.image_size -> logits float32 [N, C].
      held: what keeps the variables and tables of `logits`: they are saved with the module.
      geometry: to what size pictures are resized and cropped.
      class_names: C names, in the order of the logits.
      temperature: what logits are divided by before they become probabilities.
      several_labels: whether the probabilities of the classes are independent of each other.
      levels: how files of more than 8 bits are decoded, see `decode`. None: a file alone does not tell, so it has an
        error; Python looks at the range of all pictures together.
    """

    logits: Callable[[tf.Tensor], tf.Tensor]
    held: Sequence[tf.Variable | tf.Module]
    geometry: Geometry
    class_names: Sequence[str]
    temperature: float = 1.0
    several_labels: bool = False
    levels: IntensityRange | None = None

    def prepared(self, image: tf.Tensor) -> tf.Tensor:
        """Shows a picture as in the run's test: uint8 [H, W, 3] -> uint8 [S, S, 3]."""
        return geo.plain(image, self.geometry)

    def decoded(self, encoded: tf.Tensor) -> tf.Tensor:
        """Does the same with the bytes of a file, by operations that can be saved: string scalar -> uint8 [S, S, 3]."""
        return self.prepared(decode(encoded, self.geometry.resize, self.levels, portable=True))

    def outputs(self, prepared: tf.Tensor) -> dict[str, tf.Tensor]:
        """Classifies prepared images, uint8 [N, S, S, 3]; classifier.md describes the outputs."""
        logits = self.logits(or_black(prepared))[: tf.shape(prepared)[0]]  # [N, C]
        activation = tf.nn.sigmoid if self.several_labels else tf.nn.softmax
        label = tf.argmax(logits, 1)
        return {
            "probabilities": activation(logits / self.temperature),
            "logits": logits,
            "label": label,
            "name": tf.gather(tf.constant(list(self.class_names)), label),
        }


class HubClassifier(tf.Module):
    """Images [N, H, W, 3], any N, H and W -> probabilities, logits, labels and names; see classifier.md.

    `prepared` and `classify` are its two halves, with images uint8 [N, S, S, 3] between them. All three take uint8, or
    floats in [0, 1].
    """

    def __init__(self, model: Classifying):
        super().__init__(name="classifier")
        self.held, side, names = list(model.held), model.geometry.image_size, list(model.class_names)
        shown = tf.TensorSpec([side, side, 3], tf.uint8)

        def graph(function: Callable, *signature: tf.TensorSpec) -> Callable:
            return tf.function(function, input_signature=signature, autograph=False)

        def read(file: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            blank, deep = tf.zeros(shown.shape, tf.uint8), bool(model.levels)
            return portable.decoded(file, model.decoded, blank, DataConfig.max_megapixels, deep)

        def from_bytes(encoded: tf.Tensor) -> dict[str, tf.Tensor]:
            images, error = tf.map_fn(read, encoded, fn_output_signature=(shown, tf.TensorSpec([], tf.string)))
            found, broken = classify(images), tf.not_equal(error, "")
            for name, nothing in {"label": -1, "name": "", "probabilities": 0, "logits": 0}.items():
                those = tf.reshape(broken, [-1, *[1] * (found[name].shape.rank - 1)])
                found[name] = tf.where(those, tf.constant(nothing, found[name].dtype), found[name])
            return {**found, "error": error}

        prepared = graph(lambda images: tf.map_fn(model.prepared, images, fn_output_signature=shown), BYTES)
        classify = graph(model.outputs, tf.TensorSpec([None, *shown.shape], tf.uint8, name="images"))
        self.__call__ = of_pictures(lambda images: classify(prepared(images)))
        self.prepared, self.classify = of_pictures(prepared), of_pictures(classify, shape=[None, *shown.shape])
        self.from_bytes, self.class_names = graph(from_bytes, ENCODED), graph(lambda: tf.constant(names))

    def __call__(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Calls what is saved under this name."""
        return vars(self)["__call__"](images)


def save(module: HubClassifier, directory: str) -> None:
    """Writes the SavedModel with its signatures 'serving_default' and 'bytes'."""
    # It is not trained any more: the gradients that its encoder brings are left out.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    signatures = {"serving_default": module.__call__.get_concrete_function(BYTES), "bytes": module.from_bytes}
    tf.saved_model.save(module, directory, signatures=signatures, options=options)
