"""The commands, as documents, presets and studies call them, with their settings."""

import pathlib

from cpc_tf.core.commands import COMMANDS

ROOT = pathlib.Path(__file__).parent.parent


def settings_of(module):
    """The settings class of `python -m module`."""
    package, _, name = module.rpartition(".")
    assert name in COMMANDS, f"python -m {module}: no such command"
    assert package == "cpc_tf" or module == "export", module
    return COMMANDS[name].config
