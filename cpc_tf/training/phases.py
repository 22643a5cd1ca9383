"""The phases of a run: each is trained in a folder of the run; open settings are chosen on held-out
examples.

A search trains without the held-out examples, in WORKDIR/search/...; the phases that count train on
all examples, in WORKDIR/PHASE. A phase that is needed again, as after a kill, is restored from its
folder.

The paper trains "till convergence" (Sec. 4.2) and fine-tunes with "early-stopping" (Sec. 2.2); it
gives no rule. Ours: after `patience` evaluations in a row without a better score the rate drops to
a tenth, as often as it may; after as many more the phase ends. The best evaluation is the length
that is chosen.

With few labels there is another end: a phase whose labels are learned stops, see `Learned`.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import tensorflow as tf

from cpc_tf.core.settings import Settings, replace
from cpc_tf.training import loop
from cpc_tf.training.strategy import is_chief
from cpc_tf.training.trainee import Trainee
from cpc_tf.training.workdir import Workdir

SEARCH = "search"  # folder of the phases that train without the held-out examples
# Phases, and their folders: on a fixed encoder; then everything.
FROZEN = "frozen"
FINE_TUNED = "fine-tuned"
HELD_OUT = "held_out_"  # begins the names of scores on held-out examples
# After each STRETCH of steps the mean training loss of the last LOOK ones is looked at.
STRETCH = 50
LOOK = 100

Record = dict[str, Any]  # of metrics.jsonl, or of a trial in result.json
AnySettings = TypeVar("AnySettings", bound=Settings)


def in_folder(config: AnySettings, *names: str) -> AnySettings:
    """Returns the settings of a run for a phase in a folder of it."""
    return replace(config, workdir=os.path.join(config.workdir, *names))


class Length(NamedTuple):
    """How long a phase is trained at a constant rate, and where the rate drops."""

    steps: int
    drop_steps: tuple[int, ...] = ()  # from each of which on the rate is a tenth of what it was

    def times(self, factor: float) -> Length:
        """Returns this length for `factor` times as many images: the same epochs, to the nearest
        step.
        """
        return Length(
            round(self.steps * factor), tuple(round(step * factor) for step in self.drop_steps)
        )


class Plateau(NamedTuple):
    """What the evaluations of a phase say so far."""

    best: Record | None = None  # the record of the best evaluation; among equals of the first
    drop_steps: tuple[int, ...] = ()  # from each of which on the rate is a tenth of what it was
    ended: bool = False

    @property
    def length(self) -> Length:
        """The length up to the best evaluation; later drops of the rate are excluded."""
        steps = self.best["step"]
        return Length(steps, tuple(step for step in self.drop_steps if step < steps))


def plateau(records: Sequence[Record], score: str, patience: int, drops: int = 0) -> Plateau:
    """Returns what the records of a phase say; a function of these alone, so a resumed run goes on
    to the same end.

    Args:
      records: ascending by 'step'; those without `score` are no evaluations.
      score: the name of what is compared, higher is better.
      patience: evaluations in a row without a better one that make a plateau; 0: there is none.
      drops: plateaus that lower the rate; the one after them is the end.
    """
    best = None
    drop_steps = ()
    waited = 0
    for record in records:
        if score not in record:
            continue
        waited += 1
        if best is None or record[score] > best[score]:
            best = record
            waited = 0
        if patience and waited == patience:
            if len(drop_steps) == drops:
                return Plateau(best, drop_steps, ended=True)
            drop_steps = (*drop_steps, record["step"])
            waited = 0
    return Plateau(best, drop_steps)


def learned_at(records: Sequence[Record], loss: float) -> int | None:
    """Returns the step at which a phase has learned its labels: the mean loss of the LOOK steps
    before is below `loss`.

    It is a multiple of STRETCH; None: there is none yet. A function of the records alone, so a
    resumed run has the same one, and whether a record is of 10 steps or of 50 makes no difference.

    Args:
      records: ascending by 'step'. One ends at each multiple of STRETCH; its 'loss' is the mean
        since the one before.
      loss: the bound.
    """
    # of the losses of all steps of a stretch
    totals = collections.Counter()
    before = 0
    for record in records:
        totals[(record["step"] - 1) // STRETCH] += record["loss"] * (record["step"] - before)
        before = record["step"]
    look = LOOK // STRETCH
    for end in range(look, before // STRETCH + 1):
        # From the last stretch backwards: the order of the terms is part of the figure.
        mean = sum(totals[end - n] for n in range(1, look + 1)) / LOOK
        if mean < loss:
            return STRETCH * end
    return None


class Learned(NamedTuple):
    """The end of a phase that learns few labels: STRETCH steps after these are learned, at a tenth
    of the rate.

    A phase that goes on from such a one has that rate from its beginning, and ends as they are
    learned.
    """

    loss: float  # see `learned_at`
    drop_rates: Callable[[int], None]  # how often rates have dropped to a tenth from now on
    goes_on: bool = False

    def ended(self, records: Sequence[Record]) -> bool:
        """Returns what the records of the phase say, and sets its rates accordingly."""
        step = learned_at(records, self.loss)
        self.drop_rates(int(self.goes_on or step is not None))
        return step is not None and records[-1]["step"] >= step + (0 if self.goes_on else STRETCH)


class Evaluation(NamedTuple):
    """How a phase is judged on held-out examples while it trains."""

    evaluate: Callable[[], dict[str, float]]  # returns scores under names that begin with HELD_OUT
    every: int  # steps
    score: str  # the name of what is compared, higher is better
    patience: int  # see `plateau`
    drops: int = 0  # see `plateau`
    drop_rates: Callable[[int], None] | None = (
        None  # how often rates have dropped to a tenth; None: they never do
    )

    def plateau(self, records: Sequence[Record]) -> Plateau:
        """Returns what the records of the phase say, and sets its rates accordingly."""
        state = plateau(records, self.score, self.patience, self.drops)
        if self.drop_rates:
            self.drop_rates(len(state.drop_steps))
        return state


class PhasedRun:
    """Trains the phases of a run and counts their time. A task adds what its phases are.

    Args:
      task: see `Workdir`.
    """

    def __init__(self, task: str):
        self._task = task
        self._seconds: dict[str, float] = {}  # by folder, since a phase may be restored again

    @property
    def seconds(self) -> float:
        """Seconds that all phases have trained, over all sessions of the run."""
        return sum(self._seconds.values())

    def workdir(self, config: Settings) -> Workdir:
        """Returns the folder of a phase, `config.workdir`. Raises ConfigError, see `Workdir`."""
        return Workdir(config, self._task, is_chief(config.training.strategy))

    def train(
        self,
        workdir: Workdir,
        trainee: Trainee,
        batches: Callable[[int, tf.distribute.InputContext], tf.data.Dataset],
        steps: int,
        evaluation: Evaluation | None = None,
        learned: Learned | None = None,
        **options: Any,
    ) -> loop.Outcome:
        """Trains a phase for `steps`, or until it ends before; see `loop.train`, also for
        `options`.

        Args:
          evaluation: some of the records have its scores, which may end the phase.
          learned: what ends a phase without an evaluation.
        """
        if evaluation:
            options.update(
                evaluate=evaluation.evaluate,
                evaluate_every=evaluation.every,
                ended=lambda records: evaluation.plateau(records).ended,
            )
        elif learned:
            # Nothing is evaluated: a record ends there.
            options.update(evaluate_every=STRETCH, ended=learned.ended)
        before = workdir.records()
        outcome = loop.train(trainee, batches, workdir.config.training, steps, workdir, **options)
        has_trained = before != outcome.records
        if workdir.chief and has_trained and learned and learned.ended(outcome.records):
            since = learned_at(outcome.records, learned.loss)
            why = (
                f"the mean training loss of {LOOK} steps was below --stop_at_loss={learned.loss:g}"
                f" at step {since}"
            )
            print(f"stopped at step {outcome.step} of at most {steps}: {why}", flush=True)
        self._seconds[workdir.path] = outcome.seconds
        return outcome


def held_out(record: Mapping[str, Any]) -> dict[str, float]:
    """Returns the scores on held-out examples that a record has."""
    return {name: value for name, value in record.items() if name.startswith(HELD_OUT)}


def choose(trials: Sequence[Record], score: str) -> int:
    """Marks the best trial as 'chosen' and returns its index.

    The best has the highest `score`; among equals the lowest 'held_out_loss', if they have one;
    then it is the first.

    Args:
      trials: records for result.json, not all of them 'diverged'.
      score: the name of what is compared.
    """
    ended = [index for index, trial in enumerate(trials) if not trial.get("diverged")]
    best = min(
        ended, key=lambda index: (-trials[index][score], trials[index].get(f"{HELD_OUT}loss", 0.0))
    )
    trials[best]["chosen"] = True
    return best
