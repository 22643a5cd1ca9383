"""Measures what `cpc_tf.predict` adds to its model: python -m benchmarks.predict --classifier=DIR --files=FOLDER

Compares pictures per second of the whole prediction (files to records) with those of the model alone on batches that
are in memory already. Rounds alternate between both, so that other work on the machine disturbs both alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from absl import app, flags

_MODEL = flags.DEFINE_string("classifier", "", "directory of an exported classifier")
_PICTURES = flags.DEFINE_string("files", "", "pictures, as for cpc_tf.predict")
_BATCH = flags.DEFINE_integer("at_a_time", 32, "pictures of a batch")
_MOST = flags.DEFINE_integer("most", 640, "pictures that are used, evenly spaced")
_ROUNDS = flags.DEFINE_integer("repeats", 5, "rounds of both; their medians are compared")


def main(argv) -> None:
    """Prints one line."""
    del argv
    whole, bare = measure(_MODEL.value, _PICTURES.value, _BATCH.value, _MOST.value, _ROUNDS.value)
    print(f"predict {whole:.1f} pictures/s, the model alone {bare:.1f}, ratio {whole / bare:.2f}")


def measure(directory: str, given: str, batch_size: int, most: int, rounds: int) -> tuple[float, float]:
    """Returns pictures per second of the whole prediction and of the model alone, the medians of some rounds."""
    from cpc_tf import pictures
    from cpc_tf.predict.models import open_model

    model, files = open_model(directory), pictures.find(given)
    files = files.take(range(0, len(files), -(-len(files) // most)))
    prepared = [batch.images for batch, *_ in model.predict(files, batch_size) if len(batch.indices)]  # warms up, too

    def bare() -> None:
        for images in prepared:
            model.classify(images)

    def whole() -> None:
        for _ in model.predict(files, batch_size):
            pass

    rates = [(_rate(whole, len(files)), _rate(bare, len(files))) for _ in range(rounds)]
    return tuple(statistics.median(column) for column in zip(*rates))


def _rate(function: Callable[[], None], count: int) -> float:
    start = time.perf_counter()
    function()
    return count / (time.perf_counter() - start)


if __name__ == "__main__":
    app.run(main)
