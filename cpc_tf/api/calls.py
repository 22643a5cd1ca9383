"""What a call from Python makes of keywords, and how it runs: without prints, flags or exits."""

from __future__ import annotations

import contextlib
import difflib
import functools
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from cpc_tf import cli, presets
from cpc_tf.progress import silent
from cpc_tf.settings import ConfigError, Stopped, joined_names, leaves


def settings_of(config_class: type, preset: str | None, values: Mapping[str, Any]) -> Any:
    """Returns the settings of a preset with the values of keywords, which may be any setting of the class.

    Args:
      config_class: a settings class.
      preset: its name; None: the defaults.
      values: setting -> value. None stands for the value of the preset. A list or tuple stands for its elements with
        commas between them, see `settings.joined_names`.

    Raises:
      ConfigError: there is no such preset or setting, or a value cannot work.
    """
    known = [field.name for _, field in leaves(config_class)]
    words = [f"--preset={preset}"] if preset else []
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigError(f"{name}: no such setting" + (f"; did you mean {near[0]}?" if near else ""))
        if isinstance(value, (list, tuple)):
            value = joined_names([*map(_text, value)])
        if value is not None:
            words.append(f"--{name}={_text(value)}")
    return cli.parse(config_class, words)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def preset_of(name: str, task: str) -> str:
    """Returns the name of a preset: 'photos' is that of the task in the folder of this name, 'photos/pretrain'."""
    whole = f"{name}/{task}"
    return whole if whole in presets.names() else name


def tell(verbose: bool) -> Callable[[str], None] | None:
    """Returns what gets lines of progress: they are printed to stderr if `verbose`."""
    return functools.partial(print, file=sys.stderr, flush=True) if verbose else None


@contextlib.contextmanager
def running(verbose: bool) -> Iterator[None]:
    """Keeps stdout quiet, unless `verbose`. Ctrl-C raises KeyboardInterrupt, once the step was saved."""
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
