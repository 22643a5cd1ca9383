"""Training from Python: an encoder on pictures without labels, a classifier on pictures with labels."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any, Union

import tensorflow as tf

from cpc_tf.api.calls import preset_of, running, settings_of
from cpc_tf.api.encoder import Encoder
from cpc_tf.api.model import Model
from cpc_tf.commands import TASKS
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.files import read_json
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain as run_pretraining
from cpc_tf.settings import ConfigError

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
    """Pre-trains an encoder on pictures without labels, and exports it to WORKDIR/module.

    If it is stopped, the same call goes on from the last checkpoint. Ctrl-C saves the step and raises
    KeyboardInterrupt.

    Args:
      pictures: a folder of pictures, or several; None: what the preset names, of 'photos' the photographs that come
        with cpc_tf.
      workdir: directory of the run.
      preset: name of a preset, such as 'imagenette/pretrain_128px'; 'photos' is 'photos/pretrain'. None: the paper's
        settings.
      steps: length of training; None: as the preset says.
      verbose: whether to print what the command prints.
      **settings: any setting of `cpc-tf pretrain --help`, by the name of its flag, such as `batch_size=64`.

    Returns:
      The encoder.

    Raises:
      ConfigError: a setting or a picture cannot work, or the directory holds another run.
      RunEnded: training diverged, memory was exhausted, or something could not be written.

    Example:

        >>> import cpc_tf
        >>> cpc_tf.pretrain("my_pictures", preset="photos", steps=2, workdir="runs/mine/small/pretrain").path
        'runs/mine/small/pretrain/module'
    """
    values: dict[str, Any] = {"workdir": workdir, "train_steps": steps}
    if pictures is not None:
        folders = [pictures] if isinstance(pictures, (str, os.PathLike)) else list(pictures)
        # The probe of a preset needs labels of its own pictures.
        values.update(unlabelled=folders, split="train", probe_every=0)
    preset = preset_of(preset, "pretrain") if preset else None
    config = settings_of(PretrainConfig, preset, {**values, **settings})
    with running(verbose):
        step = run_pretraining(config)["step"]
        return Encoder(_exported(config.workdir, "encoder.json", step))


def classify(
    labelled: Path | None = None,
    *,
    encoder: Encoder | Path,
    labels: Path | None = None,
    workdir: Path = "runs/classify",
    preset: str = "imagenette/linear",
    steps: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> Model:
    """Trains a classifier on an encoder, tests it, and exports both together to WORKDIR/module.

    Stopped, it goes on as `pretrain` does. WORKDIR/result.json has the figures of the test.

    Args:
      labelled: a folder with a folder of pictures for each class, below 'train' and 'val' if it has a test of its own,
        else a fifth of the pictures is the test; with `labels`, any folder. None: what the preset names.
      encoder: as loaded, or directory of its module.
      labels: a CSV file with the columns file and label, for pictures that are not sorted into folders.
      workdir: directory of the run.
      preset: name of a preset of linear or efficient: 'imagenette/linear' trains a linear classifier on the frozen
        encoder; 'imagenette/efficient' and, for encoders of 128 px, 'imagenette/efficient_128px' are for few labels
        and fine-tune the encoder. 'photos' is 'photos/efficient'.
      steps: length of the (first) training; None: as the preset says.
      verbose: whether to print what the command prints.
      **settings: any setting of `cpc-tf linear --help` or `cpc-tf efficient --help`.

    Returns:
      The classifier.

    Raises:
      ConfigError, RunEnded: as `pretrain`.

    Example:

        >>> import cpc_tf
        >>> encoder, workdir = "modules/imagenette_128px", "runs/mine/imagenette_128px/efficient"
        >>> model = cpc_tf.classify("my_pictures", encoder=encoder, steps=20, workdir=workdir)
        >>> model.class_names
        ['blue', 'green', 'red']
        >>> [one] = model.predict("my_pictures/red/3.png")
        >>> one.file, one.label, len(one.probabilities)
        ('my_pictures/red/3.png', 'red', 3)
    """
    preset = preset_of(preset, "efficient")
    task = TASKS.get(preset.rpartition("/")[2].partition("_")[0])
    if task is None or task.name not in ("linear", "efficient"):
        raise ConfigError(f"preset={preset}: name a preset of linear or efficient, e.g. imagenette/linear")
    path = encoder.path if isinstance(encoder, Encoder) else encoder
    values = {"workdir": workdir, "encoder": path, "train_steps": steps, "labels": labels}
    if labelled is not None:
        values.update(labelled=labelled, split="train")
    if task.name == "linear":
        values.update(baselines=False)
    config = settings_of(task.config, preset, {**values, **settings})
    with running(verbose):
        result = task(config)
        trained = [phase for phase in result.get("phases", {}).values() if phase["steps"]]  # the last one is exported
        step = trained[-1]["steps"] if trained else result.get("steps")
        return Model(_exported(config.workdir, "classifier.json", step))


def _exported(workdir: str, card: str, step: int | None) -> str:
    """Exports the run of a directory at a step, unless it is exported already; returns the module's directory."""
    module = os.path.join(workdir, MODULE)
    if os.path.isdir(module):
        if read_json(os.path.join(module, card)).get("step") == step:
            return module
        shutil.rmtree(module)  # of another step; that of `efficient` has the step of its last phase, and is made again
    with tf.device("/cpu:0"):  # where it is checked: a GPU would round differently
        export(ExportConfig(workdir=workdir, output=module))
    return module
