"""The binaries by name, with their settings: what documents, presets and studies may call."""

import importlib
import pathlib

from cpc_tf.embed.config import EmbedConfig
from cpc_tf.export.run import ExportConfig
from cpc_tf.feed.config import FeedConfig
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.predict.config import PredictConfig
from cpc_tf.report.config import ReportConfig
from cpc_tf.tasks import TASKS

ROOT = pathlib.Path(__file__).parent.parent
SETTINGS = {
    **{task.module: task.config for task in TASKS.values()},
    "cpc_tf.report": ReportConfig,
    "cpc_tf.embed": EmbedConfig,
    "cpc_tf.predict": PredictConfig,
    "cpc_tf.export": ExportConfig,
    "cpc_tf.feed": FeedConfig,
    "export": ExportConfig,  # the same in a checkout
    "cpc_tf.launch": LaunchConfig,  # before the `--`
}
OWN_SETTINGS = {"cpc_tf.show_patches": "ShowConfig"}  # defined by the binary itself


def settings_of(module):
    """The settings class of `python -m module`."""
    if module in OWN_SETTINGS:
        return getattr(importlib.import_module(module), OWN_SETTINGS[module])
    assert module in SETTINGS, f"python -m {module}: no such binary"
    return SETTINGS[module]
