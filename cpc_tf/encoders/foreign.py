"""Checks encoders, mostly of others, before anything is built on them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from absl import logging

from cpc_tf.files import reason
from cpc_tf.settings import ConfigError, RunEnded
from cpc_tf.texts import shown

# The endpoint that gives the latents of our modules' patch grid instead of maps of the whole image.
LATENTS = "latents"
# Names that may also stand for a module's only output, which has no name.
_NAMELESS = ("", "feature_map", "features", LATENTS)


@contextlib.contextmanager
def refused(text: str, what: str) -> Iterator[None]:
    """Re-raises whatever TensorFlow raises as a ConfigError: '--encoder=TEXT: WHAT (the reason)'."""
    try:
        yield
    except RunEnded:
        raise
    # TensorFlow documents no types: IndexError, KeyError, AttributeError, protobuf's DecodeError and others occur.
    except Exception as error:
        raise ConfigError("encoder", shown(text), f"{what} ({_last_line(error)})") from error


def trace(function: Callable[[tf.Tensor], Any], side: int) -> Any:
    """Traces a function of images, which creates its variables, and returns its symbolic outputs."""
    spec = tf.TensorSpec([None, side, side, 3], tf.float32)
    return tf.function(function, autograph=False).get_concrete_function(spec).structured_outputs


def outputs(function: Callable[[tf.Tensor], Any], side: int, text: str) -> Any:
    """Traces an encoder. Raises ConfigError if it does not take images of this size."""
    with refused(text, f"does not take images [B, {side}, {side}, 3] in [0, 1]"):
        return trace(function, side)


def fits(output: Any, ranks: tuple[int, ...]) -> bool:
    """Whether a traced output is a tensor of floats of one of these ranks and of a known width."""
    is_tensor = isinstance(output, (tf.Tensor, tf.TensorSpec))
    return bool(is_tensor and output.dtype.is_floating and output.shape.rank in ranks and output.shape[-1])


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
                flag, endpoint, f"--encoder={text} has one output, without a name; --{flag}=feature_map is that"
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
        raise ConfigError("encoder", shown(text), f"makes {features.shape} of images [2, {side}, {side}, 3]")
    if not finite:
        raise ConfigError("encoder", shown(text), "its features of a grey image are not finite; is it damaged?")


def compiles(function: Callable[[tf.Tensor], tf.Tensor], trained: Sequence[tf.Variable], side: int, text: str) -> bool:
    """Whether XLA can compile a module; warns, with the reason, if it cannot. Nothing is run or changed.

    Args:
      function: images float32 [2, side, side, 3] -> a tensor, with variables of the current strategy.
      trained: the variables whose gradients are computed.
      side: px.
      text: the value of --encoder, for the warning.
    """

    @tf.function(autograph=False, jit_compile=True)
    def gradient(images: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            output = function(images)
        found = tape.gradient(output, trained)
        return [output, *(x for x in found if x is not None)]

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


def _last_line(error: Exception) -> str:
    # Keras appends the arguments of the call.
    lines = str(error).partition("Call arguments received")[0].strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
