"""The label curve of `cpc-tf classify --curve`: accuracy by the number of labels, beside what needs
no pre-training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from cpc_tf.classify import logistic
from cpc_tf.classify.choice import Candidate
from cpc_tf.classify.config import BALANCED, ClassifyConfig
from cpc_tf.core.settings import ConfigError, joined_names
from cpc_tf.core.texts import csv_lines
from cpc_tf.data.source import Source
from cpc_tf.drawing import plots
from cpc_tf.encoders.card import COPY, EncoderName, parted
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import open_encoder
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.training.workdir import Workdir

DRAWS = 3
ENCODER = "encoder"
UNTRAINED = "untrained"
# of the images, drawn anew in each draw
TEST_PART = 0.2
LEAST_TEST = 10
_TITLES = {ENCODER: "encoder", UNTRAINED: "the same, untrained", PIXELS: "pixels"}
_COLORS = {ENCODER: "cpc", UNTRAINED: "untrained", PIXELS: "pixels"}


def label_curve(
    config: ClassifyConfig,
    source: Source,
    candidate: Candidate,
    kind: LabelKind,
    workdir: Workdir,
    advance: Callable[[int, int], None],
) -> list[dict[str, Any]]:
    """Measures classifiers of 10, 20, 50, ... labels, three draws of each; writes curve.csv and
    curve.png.

    In each draw a fifth of the labelled images is the test, and labels are drawn from the rest at
    random. All three kinds of features have the same draws and the usual strength of the
    regularization, and learn from labels alone.

    Args:
      config: settings of the run.
      source: the labelled images.
      candidate: the encoder that was chosen, and their features by it.
      kind: single-label or multi-label.
      workdir: directory of the run.
      advance: gets how much of how much is done.

    Returns:
      Records of 'arm', 'labels', 'draw' and the main score of the kind.

    Raises:
      ConfigError: there are too few labels for a curve.
    """
    examples = candidate.examples
    count = len(examples.features)
    sizes = _sizes(count - max(LEAST_TEST, round(TEST_PART * count)))
    if len(sizes) < 2:
        raise ConfigError(f"--curve: needs at least 30 labelled images, and there are {count}")
    arms = {ENCODER: examples}
    others = {UNTRAINED: _untrained(candidate.encoder), PIXELS: PIXELS}
    others = {arm: text for arm, text in others.items() if text not in ("", candidate.encoder.path)}
    total = len(others) * count
    for number, (arm, text) in enumerate(others.items()):
        encoder = open_encoder(text, config.seed, config.image_size)
        features = encoder.encode_source(
            source, config.batch_size, lambda done, n=number: advance(n * count + done, total)
        )
        widths = examples.widths if arm == UNTRAINED else ()
        arms[arm] = examples._replace(features=features, widths=widths)
    records = []
    for draw in range(DRAWS):
        order = _in_groups(examples.groups, np.random.default_rng([config.seed, draw]))
        pool, rest = np.split(order, sizes[-1:])
        # the cut may go through a group
        test = rest[~np.isin(examples.groups[rest], examples.groups[pool])]
        if not len(test):
            raise ConfigError(
                "--curve: no images are left to test on, since nearly all labelled"
                " images are in one group"
            )
        for arm, encoded in arms.items():
            for size in sizes:
                balanced = config.class_weights == BALANCED
                learned = encoded.take(pool[:size])._replace(unlabelled=None)
                classifier = logistic.fit(learned, logistic.USUAL, balanced)
                scores = kind.score(classifier.logits(encoded.features[test]), encoded.labels[test])
                records.append(
                    {"arm": arm, "labels": size, "draw": draw, kind.main: scores[kind.main]}
                )
    rows = [[record[column] for column in records[0]] for record in records]
    workdir.write("curve.csv", csv_lines([[*records[0]], *rows]))
    workdir.write("curve.png", draw_curve(records, kind))
    return records


def _untrained(encoder: Encoder) -> str:
    """Returns the value of --encoder of an untrained copy; '' if one of the encoders has none."""
    copies = []
    for text in parted(encoder.path):
        name = EncoderName.parse(text)
        if name.kind == COPY or not name.find_card():
            return ""
        copies.append(COPY + (name.network or name.module))
    return joined_names(copies)


def _sizes(most: int) -> list[int]:
    """Returns 10, 20, 50, 100, ... up to `most`, and `most` itself if it is clearly more than the
    last.
    """
    sizes = []
    for power in range(1, 7):
        sizes += [10**power, 2 * 10**power, 5 * 10**power]
    sizes = [size for size in sizes if size <= most]
    return [*sizes, most] if sizes and most > 1.25 * sizes[-1] else sizes


def _in_groups(groups: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns all rows in a random order in which those of a group follow each other."""
    _, of_row = np.unique(groups, return_inverse=True)
    return np.lexsort((random.random(len(groups)), random.permutation(of_row.max() + 1)[of_row]))


def draw_curve(records: Sequence[dict[str, Any]], kind: LabelKind) -> bytes:
    """Returns a PNG of the mean of the draws and their range, over the number of labels."""
    sizes = sorted({record["labels"] for record in records})

    def draw(canvas: Canvas, theme: plots.Theme) -> None:
        axis = canvas.subplots()
        for arm in dict.fromkeys(record["arm"] for record in records):
            points = []
            for size in sizes:
                draws = [each for each in records if (each["arm"], each["labels"]) == (arm, size)]
                values = [100 * each[kind.main] for each in draws]
                points.append((size, np.mean(values), min(values), max(values)))
            plots.Line(_TITLES[arm], points, _COLORS[arm]).draw(axis, theme).set_label(_TITLES[arm])
        axis.set(xscale="log", xlabel="labels", title="Accuracy by the number of labels, %")
        axis.xaxis.set_major_locator(FixedLocator(sizes))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.set_ylim(0, 100)
        canvas.legend(loc="outside right upper")

    return plots.png(draw, 7, 4)
