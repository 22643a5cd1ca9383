"""Predictions from Python, by a classifier or a detector."""

from __future__ import annotations

import os
from typing import Any

from cpc_tf import pictures as files
from cpc_tf.api.calls import settings_of, tell
from cpc_tf.api.images import Images, as_flag
from cpc_tf.predict import run
from cpc_tf.predict.config import PredictConfig
from cpc_tf.predict.models import open_model
from cpc_tf.predict.records import Record


class Model:
    """A classifier or a detector that `classify` or `cpc-tf export` wrote.

    Args:
      path: its directory.
      least_score: of the boxes of a detector.

    Attributes:
      path: the directory.
      least_score: as given.
      class_names: in the order of the probabilities.

    Raises:
      ConfigError: there is no such model.
    """

    def __init__(self, path: str | os.PathLike[str], least_score: float = 0.5):
        self.path, self.least_score = os.path.expanduser(os.fspath(path)), least_score
        self._model = open_model(self.path, least_score)
        self.class_names: list[str] = self._model.class_names

    def __repr__(self) -> str:
        return f"Model({self.path!r}): {', '.join(self.class_names)}"

    def predict(self, pictures: Images) -> list[Record]:
        """Returns what is on pictures; see `predict`."""
        with as_flag(pictures) as flag:
            steps = self._model.predict(files.find(flag), self._model.usual_batch)
            return [record for _, records, _ in steps for record in records]


def predict(
    model: Model | str | os.PathLike[str], pictures: Images, *, verbose: bool = False, **settings: Any
) -> list[Record]:
    """Says what is on pictures, and writes what `cpc-tf predict` can.

    Args:
      model: as loaded, or directory of an exported classifier or detector.
      pictures: a folder (with all below it), a file, a list of files, an array uint8 or float in [0, 1] of shape
        [N, H, W, 3] or [H, W, 3], or a list of arrays or PIL images of any sizes.
      verbose: whether to print progress to stderr.
      **settings: any setting of `cpc-tf predict --help`, such as `output="predictions.csv"` or `sheet="sheet.png"`.

    Returns:
      A named tuple for each picture. Of a classifier: `file`, `labels` and `probabilities` of the most probable
      classes, best first, `label` and `confidence` of the first, `error` if it could not be read, else ''. Of a
      detector: `file`, `height`, `width`, `boxes`, `error`.

    Raises:
      ConfigError: a setting cannot work, or there is no such model.
      NotWritten: an output cannot be written.
    """
    own = {"model": model.path, "least_score": model.least_score} if isinstance(model, Model) else {"model": model}
    with as_flag(pictures) as flag:
        config = settings_of(PredictConfig, None, {**own, "pictures": flag, **settings})
        return run.predict(config, tell(verbose))
