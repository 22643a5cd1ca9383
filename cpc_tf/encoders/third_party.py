"""Opens third-party encoders, SavedModels by their call or a signature and modules of TF1 format,
and checks them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_hub as hub
from absl import logging

from cpc_tf.core.files import cache_folder, reason
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, RunEnded
from cpc_tf.core.texts import listed, shown
from cpc_tf.encoders import saved_model
from cpc_tf.encoders.card import UNIT, EncoderName

# The endpoint that gives the latents of our modules' patch grid instead of maps of the whole image.
LATENTS = "latents"
# Before the name of an output of a TF1 graph: the map that it is pooled from.
BEFORE = "before:"
_SERVED = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# Names that may also stand for a module's only output, which has no name.
_NAMELESS = ("", "feature_map", "features", LATENTS)


def open_encoder(
    name: EncoderName, signature: str, endpoint: str, side: int, flag: str, trainable: bool
) -> keras.layers.Layer:
    """A third-party encoder, or one of ours as its SavedModel, as a layer.

    Args:
      name: of the kind MODULE or GRAPH.
      signature: of a SavedModel; '': its call, else 'serving_default' or its only one, in TF1
        format 'default'.
      endpoint: which output is wanted; '': the default output. Of a TF1 graph it may be a tensor by
        its name there, as 'encoder/relu:0', or 'before:OUTPUT', the map that an output is pooled
        from.
      side: of the images, px.
      flag: that names the endpoint, for messages.
      trainable: whether its variables shall be trained, if it has some that can be.

    Returns:
      A layer that maps images float32 [B, side, side, 3] in the range `name.pixels` to an output,
      or all by name.

    Raises:
      ConfigError: if there is no such module, signature or layer, or it takes other images.
    """
    text = name.text
    # By default TF-Hub keeps modules below the common temporary folder, where any user can put one
    # under its name.
    os.environ.setdefault("TFHUB_CACHE_DIR", os.path.join(cache_folder(), "tfhub"))
    with refused(text, "cannot be loaded as a TF-Hub module"):
        directory = hub.resolve(name.module)
        saved_model.check(directory, f"--encoder={shown(text)}")
        module = hub.load(directory)
    names = _signatures(module)
    if not signature and is_tf1_hub(module):
        signature = "default"
    elif not signature and names and not callable(module):
        if len(names) > 1 and _SERVED not in names:
            raise ConfigError(
                "encoder",
                shown(text),
                f"cannot be called with images; name one of its signatures, {listed(names)}:"
                f" --signature={names[0]}",
            )
        signature = _SERVED if _SERVED in names else names[0]
    if signature:
        layer = Signature(module, signature, text, side, name.pixels)
        if ":" in endpoint:
            layer.look_inside(endpoint, flag)
        if not name.pixels:
            logging.warning(
                "--encoder=%s: signature %s is given pixels in [0, 1]; name its range if it is"
                " another, as --encoder=-1..1:%s, or 0..1: to say that it is this one",
                *(text, layer.name, name.module),
            )
        return layer
    if endpoint == LATENTS:
        if not hasattr(module, "patched"):
            raise ConfigError(
                flag,
                LATENTS,
                f"--encoder={text} is not a module of cpc-tf, so it has no patch grid",
            )
        return _as_layer(module.patched, text, trainable, side)
    if endpoint:
        layer = _as_layer(module, text, trainable, side, arguments={"return_endpoints": True})
        # a module without endpoints may raise anything: its only output is used
        with contextlib.suppress(Exception):
            trace(layer, side)
            return layer
    return _as_layer(module, text, trainable, side)


def is_tf1_hub(module: Any) -> bool:
    """Whether a loaded module has the TF1 format of TF-Hub."""
    # set by hub.load; there is no public way to ask
    return bool(getattr(module, "_is_hub_module_v1", False))


def why_untrainable(layer: keras.layers.Layer) -> str:
    """Why an opened encoder has no variables to train."""
    if isinstance(layer, Signature):
        kind = "a module of TF1 format" if is_tf1_hub(layer.resolved_object) else "a signature"
        return f"{kind} computes as it was exported: it has no mode for training"
    return "it has no trainable variables"


class Signature(keras.layers.Layer):
    """A signature of a SavedModel, frozen: images in the range that it takes -> its outputs by
    name.

    Attributes:
      resolved_object: the SavedModel, as hub.KerasLayer has it, which takes no modules of TF1
        format.

    Raises:
      ConfigError: if there is no such signature, or it takes something else than images of this
        size.
    """

    def __init__(self, module: Any, signature: str, text: str, side: int, pixels: str):
        names = _signatures(module)
        if signature not in names:
            has = f"the signatures {listed(names)}" if names else "no signatures"
            raise ConfigError("signature", shown(signature), f"--encoder={shown(text)} has {has}")
        inputs = module.signatures[signature].structured_input_signature[1]
        subject = f"--encoder={shown(text)}: signature {signature} takes"
        # A dimension may be unknown: images of any size.
        if len(inputs) != 1 or not (spec := next(iter(inputs.values()))).shape.is_compatible_with(
            [None, None, None, 3]
        ):
            shapes = ", ".join(
                f"{key} {spec.dtype.name} {spec.shape}" for key, spec in inputs.items()
            )
            raise ConfigError(f"{subject} {shapes}, not a batch of images [B, H, W, 3]")
        _check_side(spec.shape, side, subject)
        if not spec.dtype.is_floating and (pixels or UNIT) != "0..255":
            raise ConfigError(
                f"{subject} {spec.dtype.name}, whole numbers; use --encoder=0..255:{shown(text)}"
            )
        super().__init__(name=signature, trainable=False)
        self.resolved_object = module
        self._text = text
        self._takes = spec.dtype
        function, (takes,) = module.signatures[signature], inputs
        self._function = lambda images: function(**{takes: images})

    def look_inside(self, endpoint: str, flag: str) -> None:
        """Makes a tensor of its graph the only output; see `open_encoder`. Raises ConfigError."""
        function = self.resolved_object.signatures[self.name]
        if not is_tf1_hub(self.resolved_object):
            raise ConfigError(
                flag,
                endpoint,
                f"--encoder={shown(self._text)} is not a module of TF1 format; name one of its"
                " outputs",
            )
        images = function.inputs[0]
        graph = function.graph
        tensors = []
        for operation in graph.get_operations():
            tensors += operation.outputs
        maps = [x.name for x in tensors if fits(x, (4,)) and x.shape[0] is None and x is not images]
        name = endpoint
        if endpoint.startswith(BEFORE):
            output = function.structured_outputs.get(endpoint.removeprefix(BEFORE))
            above = [] if output is None else [output]
            seen = {id(output)}
            for x in above:  # breadth first: the list grows
                if x.name in maps:
                    continue
                above += [y for y in x.op.inputs if id(y) not in seen]
                seen |= {id(y) for y in x.op.inputs}
            name = next((x.name for x in above if x.name in maps), "")
        if name not in (x.name for x in tensors):
            least = (
                f"maps of its graph, the last ones: {listed(maps[-5:])}"
                if maps
                else "no maps in its graph"
            )
            raise ConfigError(
                flag, endpoint, f"no such tensor in --encoder={shown(self._text)}; {least}"
            )
        self._function = function.prune(images, {endpoint: graph.get_tensor_by_name(name)})

    def call(self, images: tf.Tensor, training: bool | None = None) -> dict[str, tf.Tensor]:
        """Images float32 [N, H, W, 3] -> {name: output}."""
        values = images if self._takes.is_floating else tf.round(images)
        return self._function(tf.cast(values, self._takes))


def _signatures(module: Any) -> list[str]:
    return sorted(getattr(module, "signatures", None) or {})


def _images_shape(function: Any) -> tf.TensorShape | None:
    """Returns the shape of the only images that a function of a SavedModel takes, or None."""
    positional, _ = function.structured_input_signature
    shapes = [each.shape for each in positional if isinstance(each, tf.TensorSpec)]
    return shapes[0] if len(shapes) == 1 and shapes[0].rank == 4 else None


def _check_side(shape: tf.TensorShape, side: int, subject: str) -> None:
    """Raises ConfigError if images of another size are taken; `subject` begins the message."""
    if not shape.is_compatible_with([None, side, side, 3]):
        height, width = shape[1:3]
        raise ConfigError(
            f"{subject} images of {height} x {width} px, not of {side} x {side} px: set"
            " --image_size, in linear --patch_size too"
        )


def _as_layer(module: Any, text: str, trainable: bool, side: int, **options: Any) -> hub.KerasLayer:
    """The call of a SavedModel as a layer. Raises ConfigError if it takes other images."""
    call = module.__call__ if callable(module) else module
    functions = getattr(call, "concrete_functions", ())
    shapes = [shape for function in functions if (shape := _images_shape(function)) is not None]
    if shapes and not any(shape.is_compatible_with([None, side, side, 3]) for shape in shapes):
        _check_side(shapes[0], side, f"--encoder={shown(text)}: takes")
    trainable = trainable and bool(getattr(module, "trainable_variables", ()))
    with refused(text, "cannot be called with images, as a TF-Hub module of images can"):
        return hub.KerasLayer(module, trainable=trainable, **options)


@contextlib.contextmanager
def refused(text: str, what: str) -> Iterator[None]:
    """Re-raises whatever TensorFlow raises as a ConfigError: '--encoder=TEXT: WHAT (the
    reason)'.
    """
    try:
        yield
    except RunEnded:
        raise
    # TensorFlow documents no types: IndexError, KeyError, AttributeError, protobuf's DecodeError
    # and others occur.
    except Exception as error:
        # which Keras appends
        lines = str(error).partition("Call arguments received")[0].strip().splitlines()
        why = lines[-1].strip() if lines else type(error).__name__
        raise ConfigError("encoder", shown(text), f"{what} ({why})") from error


def trace(function: Callable[[tf.Tensor], Any], side: int) -> Any:
    """Traces a function of images, which creates its variables, and returns its symbolic
    outputs.
    """
    spec = tf.TensorSpec([None, side, side, 3], tf.float32)
    return tf.function(function, autograph=False).get_concrete_function(spec).structured_outputs


def outputs(function: Callable[[tf.Tensor], Any], side: int, text: str) -> Any:
    """Traces an encoder. Raises ConfigError if it does not take images of this size."""
    with refused(text, f"does not take images [B, {side}, {side}, 3] in [0, 1]"):
        return trace(function, side)


def fits(output: Any, ranks: tuple[int, ...]) -> bool:
    """Whether a traced output is a tensor of floats of one of these ranks and of a known width."""
    is_tensor = isinstance(output, (tf.Tensor, tf.TensorSpec))
    return bool(
        is_tensor and output.dtype.is_floating and output.shape.rank in ranks and output.shape[-1]
    )


def described(output: Any) -> str:
    """A traced output, for messages."""
    if not isinstance(output, (tf.Tensor, tf.TensorSpec)):
        return f"a {type(output).__name__}"
    return str(output.shape) if output.dtype.is_floating else f"{output.dtype.name} {output.shape}"


def check_endpoint(outputs: Any, endpoint: str, text: str, flag: str, vectors: bool) -> None:
    """Raises ConfigError if the endpoint is not among the outputs."""
    if not isinstance(outputs, dict):
        if endpoint not in _NAMELESS:
            raise ConfigError(
                flag,
                endpoint,
                f"--encoder={text} has one output, without a name; use --{flag}=feature_map",
            )
        outputs = {endpoint: outputs}
    wanted, ranks = ("feature maps or vectors", (2, 4)) if vectors else ("feature maps", (4,))
    fitting = sorted(str(name) for name, x in outputs.items() if fits(x, ranks))
    if endpoint not in fitting:
        shape = f", but {described(outputs[endpoint])}" if endpoint in outputs else ""
        has = f"the {wanted} {', '.join(fitting)}" if fitting else f"no {wanted}"
        raise ConfigError(flag, endpoint, f"--encoder={text} has {has}{shape}")


def try_out(function: Callable[[tf.Tensor], tf.Tensor], side: int, text: str) -> None:
    """Runs a module once, because tracing trusts its signature. Raises ConfigError.

    Only on one device: with several replicas, its variables cannot be read here.
    """
    strategy = tf.distribute.get_strategy()
    if strategy.num_replicas_in_sync > 1 or isinstance(strategy, tf.distribute.TPUStrategy):
        return
    with refused(text, f"cannot be run on images [2, {side}, {side}, 3]"):
        features = function(tf.fill([2, side, side, 3], 0.5))
        finite = bool(tf.reduce_all(tf.math.is_finite(features)))
    if features.shape[0] != 2 or 0 in features.shape:
        raise ConfigError(
            "encoder", shown(text), f"makes {features.shape} of images [2, {side}, {side}, 3]"
        )
    if not finite:
        raise ConfigError(
            "encoder", shown(text), "its features of a grey image are not finite; is it damaged?"
        )


def compiles(
    function: Callable[[tf.Tensor], tf.Tensor], trained: Sequence[tf.Variable], side: int, text: str
) -> bool:
    """Whether XLA can compile a module; warns, with the reason, if it cannot. Nothing is run or
    changed.

    Args:
      function: images float32 [2, side, side, 3] -> a tensor, with variables of the current
        strategy.
      trained: the variables whose gradients are computed.
      side: px.
      text: the value of --encoder, for the warning.
    """

    @tf.function(autograph=False, jit_compile=True)
    def gradient(images: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            output = function(images)
        return [output, *(x for x in tape.gradient(output, trained) if x is not None)]

    def compile_it() -> None:
        gradient.experimental_get_compiler_ir(tf.zeros([2, side, side, 3]))(stage="hlo")

    try:
        tf.distribute.get_strategy().run(compile_it)  # replicas have variables of their own
    except Exception as error:  # as varied as in `refused`
        missing = sorted(set(re.findall(r"No registered '(\w+)' OpKernel", str(error))))
        why = f"it has no {', '.join(missing)}" if missing else reason(error)
        logging.warning("--xla: not used, since XLA cannot compile --encoder=%s (%s)", text, why)
        return False
    return True
