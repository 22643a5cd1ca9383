"""What the exports of an encoder, a classifier and a detector share: images as inputs, reading a
run, the README.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any

import jinja2
import tensorflow as tf

from cpc_tf.core.files import read_json, writing
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.names import of_folder
from cpc_tf.data.reference import DataRef
from cpc_tf.export.verify import Reference
from cpc_tf.training.checkpoint import Checkpoints

IMAGES = tf.TensorSpec([None, None, None, 3], tf.float32, name="images")
BYTES = tf.TensorSpec([None, None, None, 3], tf.uint8, name="images")
_ROUNDING = 1e-3  # that pixels may be beyond [0, 1]


@dataclasses.dataclass(frozen=True)
class Export:
    """A module that can be written, with the files beside it."""

    kind: str  # 'encoder', 'classifier' or 'detector'
    module: tf.Module
    save: Callable[[tf.Module, str], None]  # writes the module to a directory
    card: dict[str, Any]  # the content of encoder.json, classifier.json or detector.json
    readme: str
    # What the module should compute. Called after `save`: it runs a training step, which moves the
    # statistics of batch norm.
    reference: Callable[[], Reference]
    summary: str  # one line, a format string for what `verify` returns
    # further ones: name -> content
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)


def or_black(images: tf.Tensor) -> tf.Tensor:
    """The images, or a black one if there are none: a oneDNN convolution of an empty batch fails
    (TensorFlow 2.15).
    """
    shape = tf.shape(images)
    black = tf.zeros(
        tf.concat([[tf.cast(tf.equal(shape[0], 0), tf.int32)], shape[1:]], 0), images.dtype
    )
    return tf.concat([images, black], 0)


def in_range(images: tf.Tensor, alternative: str) -> tf.Tensor:
    """The images. Raises InvalidArgumentError if they are outside [0, 1]: features of such images
    only look sound.
    """
    least = tf.reduce_min(images)
    most = tf.reduce_max(images)
    message = ["images: pixels of", least, "to", most, f"; must be floats in [0, 1], {alternative}"]
    check = tf.debugging.Assert((least >= -_ROUNDING) & (most <= 1 + _ROUNDING), message)
    with tf.control_dependencies([check]):
        return tf.identity(images)


def of_images(
    function: Callable[..., Any], *more: tf.TensorSpec, shape: Sequence[int | None] = IMAGES.shape
) -> Callable[..., Any]:
    """Makes a function of uint8 images take floats in [0, 1], too, as encoders do; the result can
    be saved.

    TensorFlow would cast NumPy's floats to uint8 without a word: all images would be black.

    Args:
      function: images uint8, and further arguments -> outputs.
      more: the specifications of the further arguments.
      shape: of the images.
    """

    @tf.function(autograph=False)
    def call(images: tf.Tensor, *others: tf.Tensor) -> Any:
        if images.dtype != tf.uint8:
            images = tf.cast(tf.round(in_range(images, "or bytes, uint8") * 255), tf.uint8)
        return function(images, *others)

    # what is saved; TensorFlow refuses other types
    for dtype in (
        tf.uint8,
        tf.float32,
        tf.float64,
    ):
        call.get_concrete_function(tf.TensorSpec(shape, dtype, name="images"), *more)
    return call


def save_frozen(module: tf.Module, directory: str, **signatures: Callable[..., Any]) -> None:
    """Writes a SavedModel that is not trained any more: without the gradients that its encoder
    brings.
    """
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    signatures["serving_default"] = module.__call__.get_concrete_function(BYTES)
    tf.saved_model.save(module, directory, signatures=signatures, options=options)


def copy_module(module: str, directory: str) -> None:
    """Copies all files of a module into a directory, which is created if need be. Raises
    NotWritten.
    """
    with writing(directory):
        for folder, _, files in tf.io.gfile.walk(module):
            place = os.path.normpath(os.path.join(directory, os.path.relpath(folder, module)))
            tf.io.gfile.makedirs(place)
            for file in files:
                tf.io.gfile.copy(os.path.join(folder, file), os.path.join(place, file))


def read_checkpoint(workdir: str, step: int, read: Callable[[str], None]) -> int:
    """Reads, by its path, the checkpoint of a step (0: the newest whole one), and returns the step.

    Raises:
      ConfigError: there is no such checkpoint, or none that is whole.
    """
    checkpoints = Checkpoints(workdir)
    steps = checkpoints.steps()
    if not steps:
        raise ConfigError("workdir", workdir, "has no checkpoint; let the run reach its first one")
    if step and step not in steps:
        there = ", ".join(map(str, steps))
        raise ConfigError(
            "step", step, f"no such checkpoint in --workdir={workdir}; there are {there}"
        )
    candidates = [step] if step else steps[::-1]
    step = checkpoints.read_first(candidates, lambda step: read(checkpoints.path(step)))
    if step is None:
        tried = ", ".join(map(str, sorted(candidates)))
        raise ConfigError("workdir", workdir, f"no checkpoint that can be read among {tried}")
    return step


def restore(path: str, **objects: tf.Module | tf.train.Checkpoint) -> None:
    """Reads these parts of a checkpoint, with all their variables; others, such as the optimizer,
    are not read.
    """
    tf.train.Checkpoint(**objects).read(path).expect_partial().assert_existing_objects_matched()


@contextlib.contextmanager
def missing_module_named(workdir: str) -> Iterator[None]:
    """Adds to a ConfigError that the run needs the module that is wrong."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(
            "workdir", workdir, f"the module that this run began with is needed: {error}"
        ) from error


def result_of(workdir: str) -> dict[str, Any]:
    """The run's result.json; empty if it has not ended."""
    path = os.path.join(workdir, "result.json")
    return read_json(path) if tf.io.gfile.exists(path) else {}


def result_of_ended(workdir: str, task: str) -> dict[str, Any]:
    """The result.json of a run of a task. Raises ConfigError if the run has not ended."""
    result = result_of(workdir)
    if not result:
        raise ConfigError(
            "workdir",
            workdir,
            f"has no result.json; let `cpc-tf {task}` end, and name its --workdir, not the"
            " directory of a phase in it",
        )
    return result


def read_intensity_range(workdir: str) -> tuple[float, float] | None:
    """The values that became 0 and 255 in the run's images of more than 8 bits; None: it had
    none.
    """
    path = os.path.join(workdir, "levels.json")
    levels = read_json(path).get("levels") if tf.io.gfile.exists(path) else None
    return tuple(levels) if levels else None


def run_name(workdir: str) -> str:
    """A run's name: its directory without the folders of this machine."""
    return os.path.basename(workdir.rstrip("/"))


def dataset_name(dataset: str) -> str:
    """A --dataset without the folders of this machine: 'folder:birds' for
    'folder:/home/me/birds/train'.
    """
    named = DataRef.parse(dataset)
    return str(DataRef(named.kind, of_folder(named.path))) if named.kind else dataset


def versions(*libraries: str) -> dict[str, str]:
    """The versions of the libraries that write a module, TensorFlow first."""
    return {name: metadata.version(name) for name in ("tensorflow", *libraries)}


def render(template: str, **facts: Any) -> str:
    """Returns a README: the template export/NAME.md.jinja with these facts, which it puts into
    words.
    """
    return _template(template).render(facts)


def render_block(template: str, block: str, **facts: Any) -> str:
    """Returns one block of a README; see `render`."""
    page = _template(template)
    return "".join(page.blocks[block](page.new_context(facts)))


def _template(name: str) -> jinja2.Template:
    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    pages.filters.update(dataset=dataset_name, code=lambda text: f"`{text}`")
    return pages.get_template(f"{name}.md.jinja")
