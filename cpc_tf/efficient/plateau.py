"""When a phase has converged: a plateau of its score on held-out labels.

The paper trains "till convergence" (Sec. 4.2) and fine-tunes with "early-stopping" (Sec. 2.2); it gives no rule. Ours:
after `patience` evaluations in a row without a better score the rate drops to a tenth, if it may; after as many more
the phase ends. The best evaluation is the length that is found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from cpc_tf.efficient.config import EfficientConfig


class Length(NamedTuple):
    """How long a phase is trained at a constant rate."""

    steps: int
    drop_step: int = 0  # from which on the rate is a tenth; 0: nowhere


class Plateau(NamedTuple):
    """What the evaluations of a phase say so far."""

    best: dict[str, Any] | None = None  # the record of the best evaluation; among equals of the first
    drop_step: int = 0  # from which on the rate is a tenth; 0: not yet
    ended: bool = False

    @property
    def length(self) -> Length:
        """The length up to the best evaluation; a drop after it is none of it."""
        steps = self.best["step"]
        return Length(steps, self.drop_step if self.drop_step < steps else 0)


def plateau(records: Sequence[dict[str, Any]], score: str, patience: int, drops: bool = True) -> Plateau:
    """Returns what the records of a phase say; a function of these alone, so a resumed run goes on to the same end.

    Args:
      records: ascending by 'step'; those without `score` are no evaluations.
      score: the name of what is compared, higher is better.
      patience: evaluations in a row without a better one that make a plateau; 0: there is none.
      drops: whether the first plateau lowers the rate, and only the second is the end.
    """
    best, drop_step, waited = None, 0, 0
    for record in records:
        if score not in record:
            continue
        waited += 1
        if best is None or record[score] > best[score]:
            best, waited = record, 0
        if patience and waited == patience:
            if drop_step or not drops:
                return Plateau(best, drop_step, ended=True)
            drop_step, waited = record["step"], 0
    return Plateau(best, drop_step)


def evaluate_every(config: EfficientConfig, longest: int, images: int) -> int:
    """Returns the steps between evaluations on held-out labels: an epoch.

    Of few images it is `look_steps` instead, since an evaluation after each of their epochs would take longer than the
    training. Short phases have at least `least_looks`.
    """
    sgd, epoch = config.sgd, math.ceil(images / config.training.batch_size)
    return min(max(epoch, sgd.look_steps), math.ceil(longest / sgd.least_looks))
