"""What an image costs in each trial, divided by what it costs in the recipe of the release:
`Trial.cost`.

    python -m studies.recipe.cost ../shared/data/imagenette-224

A trial that changes only the optimizer costs the same, and is not measured.
"""

from __future__ import annotations

import statistics
import sys

from cpc_tf.training import pace
from studies.recipe.study import TRIALS, training
from studies.runner import Places

ROUNDS = 3  # the trials take turns, since machines are noisy
ALIKE = ("rate 0.004", "constant rate", "average 0.9999", "half as long")


def main(pictures: str) -> None:
    """Prints a line for each trial."""
    places = Places(pictures=pictures)
    measured: dict[str, list[float]] = {name: [] for name in TRIALS if name not in ALIKE}
    for _ in range(ROUNDS):
        for name, seconds in measured.items():
            module, *words = command = training(places, TRIALS[name])
            step = pace.seconds_of_step(module, words, pace.CPU)
            images = 64 if "--batch_size=64" in command else 32
            seconds.append(step / images)
            print(f"{name}: {1000 * seconds[-1]:.1f} ms", flush=True)
    least = min(measured["nothing"])
    for name, seconds in measured.items():
        ratio = min(seconds) / least
        print(f"{name}: {ratio:.2f} (median {statistics.median(seconds) / least:.2f})")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
