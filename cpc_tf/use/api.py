"""The functions of `import cpc_tf`: they take any setting of a command as a keyword, and print
nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.files import read_json
from cpc_tf.core.progress import silent
from cpc_tf.core.settings import (
    ConfigError,
    Stopped,
    chosen,
    joined_names,
    leaves,
    replace,
    unflatten,
)
from cpc_tf.data.pictures import Images
from cpc_tf.encoders.features import Encoder

if TYPE_CHECKING:
    from cpc_tf.use.embed import Embedding
    from cpc_tf.use.model import Model, Record

# The commands are imported in the functions: `load_encoder` needs none of them.
MODULE = "module"  # folder of a run's directory that holds what was exported
Path = Union[str, os.PathLike]


def pretrain(
    pictures: Path | Sequence[Path] | None = None,
    *,
    workdir: Path = "runs/pretrain",
    preset: str | None = "photos",
    steps: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> Encoder:
    """Pre-trains an encoder on images without labels, and exports it to WORKDIR/module.

    If it is stopped, the same call goes on from the last checkpoint. Ctrl-C saves the step and
    raises KeyboardInterrupt.

    Args:
      pictures: a folder of images, or several; None: the data set of the preset, for 'photos' the
        photographs that come with cpc_tf.
      workdir: directory of the run.
      preset: name of a preset, such as 'imagenette/pretrain_128px'; 'photos' is 'photos/pretrain'.
        None: the paper's settings.
      steps: length of training; None: that of the preset.
      verbose: whether to print what the command prints.
      **settings: any setting of `cpc-tf pretrain --help`, by the name of its flag, such as
        `batch_size=64`.

    Returns:
      The encoder.

    Raises:
      ConfigError: a setting or an image cannot work, or the directory holds another run.
      RunEnded: training diverged, memory was exhausted, or something could not be written.

    Example:

        >>> import cpc_tf
        >>> workdir = "runs/mine/small/pretrain"
        >>> cpc_tf.pretrain("my_pictures", preset="photos", steps=2, workdir=workdir).path
        'runs/mine/small/pretrain/module'
    """
    from cpc_tf.pretrain.config import PretrainConfig
    from cpc_tf.pretrain.run import pretrain as run_pretraining

    values: dict[str, Any] = {"workdir": workdir, "train_steps": steps}
    if pictures is not None:
        folders = [pictures] if isinstance(pictures, (str, os.PathLike)) else list(pictures)
        # The probe of a preset needs labels of its own images.
        values.update(unlabelled=folders, split="train", probe_every=0)
    preset = preset_of(preset, "pretrain") if preset else None
    config = settings_of(PretrainConfig, preset, {**values, **settings})
    with running(verbose):
        step = run_pretraining(config)["step"]
        return Encoder(_exported(config.workdir, "encoder.json", {"step": step}))


def classify(
    labelled: Path,
    *,
    labels: Path | None = None,
    encoder: Encoder | Path | None = None,
    workdir: Path = "runs/classify",
    verbose: bool = False,
    **settings: Any,
) -> Model:
    """Trains a classifier on labelled images in a minute, and writes it to WORKDIR/classifier.

    It is a logistic regression on the features of an encoder, trained on all labels.
    WORKDIR/result.json has its accuracy by cross-validation. A classifier that is there already is
    replaced.

    Args:
      labelled: a folder with a folder of images for each class; with `labels`, any folder.
      labels: a CSV file with the columns file and label, for images that are not sorted into
        folders. Images without a label help where labels are few.
      encoder: as loaded, directory of its module, or name of a released one; several separated by
        commas: cross-validation chooses. None: 'imagenette_128px'.
      workdir: directory of the classifier.
      verbose: whether to print what the command prints.
      **settings: any setting of `cpc-tf classify --help`.

    Returns:
      The classifier.

    Raises:
      ConfigError: a setting or an image cannot work, there are fewer than two classes, or the
        directory holds another kind of run.
      NotWritten: something cannot be written.

    Example:

        >>> import cpc_tf
        >>> encoder, workdir = "imagenette_128px", "runs/mine/classify"
        >>> model = cpc_tf.classify("my_pictures", encoder=encoder, workdir=workdir)
        >>> model.class_names
        ['blue', 'green', 'red']
        >>> [one] = model.predict("my_pictures/red/3.png")
        >>> one.file, one.label, len(one.probabilities)
        ('my_pictures/red/3.png', 'red', 3)
    """
    from cpc_tf.classify.config import ClassifyConfig
    from cpc_tf.use import classify as command
    from cpc_tf.use.model import Model

    path = encoder.path if isinstance(encoder, Encoder) else encoder
    values = {
        "labelled": labelled,
        "labels": labels,
        "encoder": path,
        "workdir": workdir,
        **settings,
    }
    config = settings_of(ClassifyConfig, None, values)
    with running(verbose):
        command.classify(config, functools.partial(print, flush=True))
    return Model(os.path.join(config.workdir, command.CLASSIFIER))


def train_classifier(
    labelled: Path | None = None,
    *,
    encoder: Encoder | Path,
    labels: Path | None = None,
    workdir: Path = "runs/train_classifier",
    preset: str = "imagenette/linear",
    steps: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> Model:
    """Trains a classifier by the paper's protocols, tests it, and exports it with its encoder to
    WORKDIR/module.

    `classify` takes a minute; this takes longer and can fine-tune the encoder.

    If it is stopped, the same call goes on. WORKDIR/result.json has the figures of the test.

    Args:
      labelled: a folder with a folder of images for each class, below 'train' and 'val' if it has a
        test split; else the test is a fifth of the images. With `labels`, any folder. None: the
        data set of the preset.
      encoder: loaded, or the directory of its module.
      labels: a CSV file with the columns file and label, for images that are not sorted into
        folders.
      workdir: directory of the run.
      preset: name of a preset of linear or efficient: 'imagenette/linear' trains a linear
        classifier on the frozen encoder; 'imagenette/efficient' and, for encoders of 128 px,
        'imagenette/efficient_128px' are for few labels and fine-tune the encoder. 'photos' is
        'photos/efficient'.
      steps: length of the (first) training; None: that of the preset.
      verbose: whether to print what the command prints.
      **settings: any setting of `cpc-tf linear --help` or `cpc-tf efficient --help`.

    Returns:
      The classifier.

    Raises:
      ConfigError, RunEnded: see `pretrain`.

    Example:

        >>> import cpc_tf
        >>> encoder, workdir = "imagenette_128px", "runs/mine/imagenette_128px/efficient"
        >>> model = cpc_tf.train_classifier(
        ...     "my_pictures", encoder=encoder, steps=20, workdir=workdir
        ... )
        >>> model.predict("my_pictures/red/3.png")[0].label
        'red'
    """
    from cpc_tf.core.commands import TASKS
    from cpc_tf.training.workdir import REFIT
    from cpc_tf.use.model import Model

    preset = preset_of(preset, "efficient")
    task = TASKS.get(preset.rpartition("/")[2].partition("_")[0])
    if task is None or task.name not in ("linear", "efficient"):
        raise ConfigError(
            f"preset={preset}: name a preset of linear or efficient, e.g. imagenette/linear"
        )
    path = encoder.path if isinstance(encoder, Encoder) else encoder
    values = {"workdir": workdir, "encoder": path, "train_steps": steps, "labels": labels}
    if labelled is not None:
        values.update(labelled=labelled, split="train")
    if task.name == "linear":
        values.update(baselines=False)
    config = settings_of(task.config, preset, {**values, **settings})
    with running(verbose):
        result = task.run(config)
        phases = result.get(REFIT, result).get("phases", {})
        trained = [phase for phase in phases.values() if phase["steps"]]  # the last one is exported
        step = trained[-1]["steps"] if trained else result.get("steps")
        about = {"step": step, "refit_labels": result.get(REFIT, {}).get("num_train_labels")}
        return Model(_exported(config.workdir, "classifier.json", about))


def predict(
    model: Model | str | os.PathLike[str],
    pictures: Images,
    *,
    verbose: bool = False,
    **settings: Any,
) -> list[Record]:
    """Predicts images, and writes the outputs of `cpc-tf predict` that the settings name.

    Args:
      model: loaded, or the directory of an exported classifier or detector.
      pictures: a folder (with all below it), a file, a list of files, an array uint8 or float in
        [0, 1] of shape [N, H, W, 3] or [H, W, 3], or a list of arrays or PIL images of any sizes.
      verbose: whether to print progress to stderr.
      **settings: any setting of `cpc-tf predict --help`, such as `output="predictions.csv"` or
        `sheet="sheet.png"`.

    Returns:
      A named tuple for each image. Of a classifier: `file`, `labels` and `probabilities` of the
      most probable classes, best first, `label` and `confidence` of the first, `error` if it could
      not be read, else ''. Of a
      detector: `file`, `height`, `width`, `boxes`, `error`.

    Raises:
      ConfigError: a setting cannot work, or there is no such model.
      NotWritten: an output cannot be written.
    """
    from cpc_tf.use import predict as command
    from cpc_tf.use.model import Model
    from cpc_tf.use.predict_config import PredictConfig

    opened = model if isinstance(model, Model) else None
    defaults = (
        {"model": opened.path, "least_score": opened.least_score} if opened else {"model": model}
    )
    config = settings_of(PredictConfig, None, {**defaults, "pictures": _path(pictures), **settings})
    return command.predict(config, _tell(verbose), opened, None if config.pictures else pictures)


def embed(
    encoder: Encoder | str | os.PathLike[str],
    pictures: Images,
    *,
    verbose: bool = False,
    **settings: Any,
) -> Embedding:
    """Encodes images; as settings ask, writes features, a map, near duplicates, and which images to
    label first.

    Args:
      encoder: loaded, or the directory of its module.
      pictures: those of `predict`.
      verbose: whether to print progress to stderr.
      **settings: any setting of `cpc-tf embed --help`, such as `output="features.npz"` or
        `map="map.png"`.

    Returns:
      `names` of the images, `features` float32 [N, D], `broken` {name: reason} of those that cannot
      be read, and `what`, a description of the features.

    Raises:
      ConfigError: a setting cannot work, or no image can be read.
      NotWritten: an output cannot be written.

    Example:

        >>> import cpc_tf
        >>> found = cpc_tf.embed("imagenette_128px", "my_pictures", to_label=4)
        >>> found.names[:2], found.features.shape
        (['blue/0.png', 'blue/1.png'], (24, 1024))
        >>> open("to_label.csv").read().count(".png")
        4
    """
    from cpc_tf.use import embed as command
    from cpc_tf.use.embed_config import EmbedConfig

    opened = encoder if isinstance(encoder, Encoder) else None
    defaults = {name: getattr(opened, name) for name in ("seed", "image_size") if opened}
    path = opened.path if opened else encoder
    config = settings_of(
        EmbedConfig, None, {"encoder": path, "pictures": _path(pictures), **defaults, **settings}
    )
    if any(getattr(config, name) != value for name, value in defaults.items()):
        opened = None  # these settings make it another one
    with contextlib.ExitStack() as quiet:
        if not verbose:
            quiet.enter_context(silent())
        return command.embed(config, _tell(verbose), opened, None if config.pictures else pictures)


def settings_of(config_class: type, preset: str | None, values: Mapping[str, Any]) -> Any:
    """Returns the settings of a preset with the values of keywords, which may be any setting of the
    class.

    Args:
      config_class: a settings class.
      preset: its name; None: the defaults.
      values: setting -> value. None stands for the value of the preset. A list or tuple stands for
        its elements separated by commas, see `settings.joined_names`.

    Raises:
      ConfigError: there is no such preset or setting, or a value cannot work.
    """
    if preset is not None:
        before = cli.parse(config_class, [f"--preset={preset}"])
        config_class = type(before)
    changes = {}
    fields = {field.name: field for _, field in leaves(chosen(config_class, values))}
    for name, value in values.items():
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            raise ConfigError(
                f"{name}: no such setting" + (f"; did you mean {near[0]}?" if near else "")
            )
        if isinstance(value, (list, tuple)):
            value = joined_names([*map(_text, value)])
        elif fields[name].type is str and value is not None:
            value = _text(value)
        elif isinstance(value, np.generic):
            value = value.item()
        if value is not None:
            changes[name] = cli.value_of(fields[name], value)
    if preset is None:
        return unflatten(config_class, changes)
    return replace(before, **changes)


def _text(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def preset_of(name: str, task: str) -> str:
    """Returns the name of a preset: 'photos' is that of the task in the folder of this name,
    'photos/pretrain'.
    """
    whole = f"{name}/{task}"
    return whole if whole in cli.preset_names() else name


def _path(images: Images) -> str | os.PathLike[str]:
    """Returns the folder or file of images, for --pictures; '' for a list and for arrays."""
    return images if isinstance(images, (str, os.PathLike)) else ""


def _tell(verbose: bool) -> Callable[[str], None] | None:
    """Returns a function that prints lines of progress to stderr; None if not `verbose`."""
    return functools.partial(print, file=sys.stderr, flush=True) if verbose else None


@contextlib.contextmanager
def running(verbose: bool) -> Iterator[None]:
    """Keeps stdout quiet, unless `verbose`. Ctrl-C raises KeyboardInterrupt, once the step was
    saved.
    """
    log = tf.get_logger()
    level = log.level
    log.setLevel(max(level, logging.WARNING))  # no notice that a module was written
    try:
        with contextlib.ExitStack() as quiet:
            if not verbose:
                quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
                quiet.enter_context(silent())
            yield
    except Stopped as stop:
        if stop.status == 128 + signal.SIGINT:
            raise KeyboardInterrupt(str(stop)) from stop
        raise
    finally:
        log.setLevel(level)


def _exported(workdir: str, card: str, about: Mapping[str, Any]) -> str:
    """Exports the run of a directory unless its module has these entries in its card; returns the
    directory.
    """
    from cpc_tf.export.run import export_into

    module = os.path.join(workdir, MODULE)
    if os.path.isdir(module):
        written = read_json(os.path.join(module, card))
        if all(written.get(name) == value for name, value in about.items()):
            return module
    return export_into(workdir, MODULE)
