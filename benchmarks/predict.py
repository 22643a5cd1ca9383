"""Measures what `cpc_tf.predict` adds to its model: python -m benchmarks.predict --classifier=DIR
--files=FOLDER

Compares images per second of the whole prediction (files to records) with those of the model alone
on batches that are in memory already. Rounds alternate between both, so that other work on the
machine disturbs both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import numpy as np
from absl import app, flags


def main(argv) -> None:
    """Prints one line."""
    del argv
    given = flags.FLAGS
    found = measure(given.classifier, given.files, given.at_a_time, given.most, given.repeats)
    (whole, whole_cpu), (bare, bare_cpu) = found
    print(f"predict {whole:.1f} images/s, the model alone {bare:.1f}, ratio {whole / bare:.2f}")
    print(
        f"CPU time {whole_cpu:.2f} ms an image, the model alone {bare_cpu:.2f} ms, ratio"
        f" {bare_cpu / whole_cpu:.2f}"
    )


def measure(
    directory: str, given: str, batch_size: int, most: int, rounds: int
) -> list[tuple[float, float]]:
    """Returns (images per second, ms of CPU time an image) of the whole prediction and of the model
    alone.

    These are the medians of some rounds; the time until the first batch is there does not count.
    """
    from cpc_tf.data import pictures
    from cpc_tf.use.model import Model

    model = Model(directory)
    files = pictures.find(given)
    files = files.take(range(0, len(files), -(-len(files) // most)))
    sound = (
        [image for image in images if image is not None]
        for _, images in model.steps(files, batch_size)
    )
    prepared = [np.stack(images) for images in sound if images]  # warms up, too

    def bare() -> Iterator[int]:
        for images in prepared:
            model.classify(images)
            yield len(images)

    def whole() -> Iterator[int]:
        for records, _ in model.steps(files, batch_size):
            yield len(records)

    found = [(_timed(whole()), _timed(bare())) for _ in range(rounds)]
    return [tuple(map(statistics.median, zip(*column))) for column in zip(*found)]


def _timed(batches: Iterator[int]) -> tuple[float, float]:
    next(batches)
    start = time.perf_counter()
    cpu = time.process_time()
    count = sum(batches)
    return count / (time.perf_counter() - start), 1000 * (time.process_time() - cpu) / count


if __name__ == "__main__":
    flags.DEFINE_string("classifier", "", "directory of an exported classifier")
    flags.DEFINE_string("files", "", "images, as for cpc_tf.predict")
    flags.DEFINE_integer("at_a_time", 32, "images of a batch")
    flags.DEFINE_integer("most", 640, "images that are used, evenly spaced")
    flags.DEFINE_integer("repeats", 5, "rounds of both; their medians are compared")
    app.run(main)
