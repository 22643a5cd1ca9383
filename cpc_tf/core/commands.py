"""The table of commands: what each does, its settings and its function, which is imported when it
runs.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command of `cpc-tf`, and a module of `python -m cpc_tf.NAME`."""

    name: str
    what: str  # what it does, in the help of `cpc-tf`
    # 'module:class', free of TensorFlow; the module's docstring is the beginning of `--help`
    settings: str
    function: str  # 'module:function', which gets the settings
    trains: bool = False  # whether it is a task: a training with a --workdir and a result.json

    @property
    def config(self) -> type:
        """The class of its settings."""
        return pkgutil.resolve_name(self.settings)

    @property
    def run(self) -> Callable:
        """Its function."""
        return pkgutil.resolve_name(self.function)

    def __call__(self, config: Any) -> Any:
        """Runs it. Raises ConfigError if something that it needs is not named, and what its
        function raises.
        """
        config.check_complete()
        return self.run(config)


# In the order in which a newcomer needs them.
_COMMANDS = (
    Command(
        "data",
        "summarize your images, labels or boxes before anything trains",
        "cpc_tf.use.data:DataSummaryConfig",
        "cpc_tf.use.data:summarize",
    ),
    Command(
        "label",
        "give images their classes in the browser: few well chosen labels",
        "cpc_tf.label.config:LabelConfig",
        "cpc_tf.label.run:main",
    ),
    Command(
        "classify",
        "train a classifier on labelled images in a minute, and classify new ones",
        "cpc_tf.classify.config:ClassifyConfig",
        "cpc_tf.use.classify:main",
        trains=True,
    ),
    Command(
        "pretrain",
        "learn an encoder from images without labels",
        "cpc_tf.pretrain.config:PretrainConfig",
        "cpc_tf.pretrain.run:pretrain",
        trains=True,
    ),
    Command(
        "compare",
        "find which objective learns the best encoder of your images in equal time",
        "cpc_tf.compare.config:CompareConfig",
        "cpc_tf.compare.run:compare",
    ),
    Command(
        "linear",
        "train a linear classifier on a frozen encoder, and measure it",
        "cpc_tf.linear.config:LinearConfig",
        "cpc_tf.linear.run:linear",
        trains=True,
    ),
    Command(
        "efficient",
        "train a classifier on few labels, and fine-tune the encoder",
        "cpc_tf.efficient.config:EfficientConfig",
        "cpc_tf.efficient.run:efficient",
        trains=True,
    ),
    Command(
        "detect",
        "train a detector on images with boxes",
        "cpc_tf.detect.config:DetectConfig",
        "cpc_tf.detect.run:detect",
        trains=True,
    ),
    Command(
        "export",
        "write the encoder, classifier or detector of a run as a SavedModel",
        "cpc_tf.export.config:ExportConfig",
        "cpc_tf.export.run:main",
    ),
    Command(
        "predict",
        "classify new images, or detect objects, with an exported model",
        "cpc_tf.use.predict_config:PredictConfig",
        "cpc_tf.use.predict:main",
    ),
    Command(
        "embed",
        "write the features of images; map them, find neighbours and duplicates",
        "cpc_tf.use.embed_config:EmbedConfig",
        "cpc_tf.use.embed:main",
    ),
    Command(
        "report",
        "put all results below a folder on one page",
        "cpc_tf.report.config:ReportConfig",
        "cpc_tf.report.page:main",
    ),
    Command(
        "show",
        "draw the patches that an encoder sees",
        "cpc_tf.pretrain.show:ShowConfig",
        "cpc_tf.pretrain.show:show",
    ),
)
COMMANDS = {command.name: command for command in _COMMANDS}
TASKS = {name: command for name, command in COMMANDS.items() if command.trains}
