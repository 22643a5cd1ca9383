"""`cpc-tf classify`: a classifier from labelled images, checked as a module, and predictions of
new images.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.classify.run import learn
from cpc_tf.core.locks import locked
from cpc_tf.core.progress import waiting_for
from cpc_tf.core.settings import replace
from cpc_tf.core.texts import STDOUT
from cpc_tf.data import pictures
from cpc_tf.data.pictures import Images
from cpc_tf.export.run import export_into
from cpc_tf.training.workdir import Workdir

if TYPE_CHECKING:
    from cpc_tf.use.model import Record

CLASSIFIER = "classifier"  # the module in the directory
Tell = Callable[[str], None]


def main(config: ClassifyConfig) -> None:
    """The command `cpc-tf classify`."""
    classify(
        config,
        functools.partial(print, file=sys.stderr if config.output == STDOUT else None, flush=True),
    )


def classify(
    config: ClassifyConfig, tell: Tell = lambda line: None, images: Images | None = None
) -> tuple[dict[str, Any], list[Record]]:
    """Trains a classifier on all labels, says how good it is, and predicts new images.

    Args:
      config: the settings.
      tell: gets lines for the user.
      images: new images; None: those of the settings.

    Returns:
      The content of result.json, and a `Prediction` of each new image, in order.

    Raises:
      ConfigError: as `learn`, or the directory holds another kind of run, or the new images or the
        output cannot be used, which is found out before the training.
      NotWritten: something cannot be written.
      NotVerified: the module does not compute what was trained; one of an earlier run stays, with
        its own figures in its classifier.json.
    """
    has_new = bool(config.pictures) or images is not None
    if has_new:
        from cpc_tf.use import formats
        from cpc_tf.use.predict import predict
        from cpc_tf.use.predict_config import PredictConfig

        prediction = PredictConfig(
            pictures=config.pictures, output=config.output, sheet=config.sheet
        )
        formats.check_new(config.output)
    if config.pictures not in ("", "-"):  # standard input can be read only once
        pictures.find(config.pictures)
    with _opened(config, has_new) as workdir:
        result = learn(config, workdir, tell)
        if workdir is None:
            tell(
                "the classifier was not saved; --workdir=runs/mine/classify saves it, and"
                " --pictures=... classifies new images"
            )
            return result, []
        with waiting_for("checking the classifier as a module"):
            model = export_into(workdir.path, CLASSIFIER)
        if config.workdir:
            tell(f"{model}: the saved classifier; use it with cpc-tf predict --model={model}")
        if not has_new:
            return result, []
        records = predict(replace(prediction, model=model), tell, images=images)
        for what, path in {"predictions": config.output, "sheet": config.sheet}.items():
            if path and path != STDOUT:
                tell(f"{path}: the {what} of {len(records)} images")
        return result, records


@contextlib.contextmanager
def _opened(config: ClassifyConfig, is_needed: bool) -> Iterator[Workdir | None]:
    """Yields the directory of the run, alone in it; without --workdir a temporary one, or None if
    none is needed.
    """
    if config.workdir:
        with locked(config.workdir):
            yield Workdir(config, "classify", replaces=True)
    elif is_needed:
        with tempfile.TemporaryDirectory(prefix="cpc_tf_classify") as folder:
            yield Workdir(replace(config, workdir=folder), "classify", replaces=True)
    else:
        yield None
