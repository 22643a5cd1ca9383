"""The training loop: device loops of steps, looks, checkpoints; it knows nothing of what is trained."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from cpc_tf.settings import RunEnded
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.progress import Progress
from cpc_tf.training.strategy import is_chief
from cpc_tf.training.workdir import Workdir


class Trainee(Protocol):
    """What can be trained."""

    strategy: tf.distribute.Strategy
    checkpoint: tf.train.Checkpoint
    metric_names: list[str]

    def train_step(self, batch) -> dict[str, tf.Tensor]:
        """One update in replica context -> float32 scalars named `metric_names`."""


Record = dict


class Stopped(RunEnded):
    """SIGTERM came; a checkpoint was saved."""

    status = 143  # what a shell reports for a process that SIGTERM ended


class Diverged(RunEnded):
    """The loss or the gradient is no longer finite."""

    status = 3


def train(
    trainee: Trainee,
    make_dataset: Callable[[int, tf.distribute.InputContext], tf.data.Dataset],
    config: TrainingConfig,
    train_steps: int,
    workdir: Workdir,
    look: Callable[[int, Record], str | None] = lambda step, record: None,
    probe: Callable[[], Record] | None = None,
    probe_every: int = 0,
) -> Record:
    """Trains up to `train_steps`, from the newest whole checkpoint of the run if it has one.

    Args:
      make_dataset: (first step, input context) -> infinite per-replica batches from that step on.
      look: given each record; may return a warning to show.
      probe: run every `probe_every` steps (0: never) and at the end; its figures join the record.

    Returns:
      the last record.

    Raises:
      Diverged: naming the last good checkpoint.
      Stopped: after SIGTERM.
    """
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint, config.keep_checkpoints)
    chief = is_chief(trainee.strategy)
    step = _resume(checkpoints, workdir, chief)
    record = {}
    if step >= train_steps:
        print(f"{workdir.path}: already at step {step} of {train_steps}", flush=True)
        return workdir.metrics()[-1]
    iterator = iter(trainee.strategy.distribute_datasets_from_function(lambda context: make_dataset(step, context)))
    device_loop = _device_loop(trainee)
    events = [every for every in (config.checkpoint_every, probe_every) if every]
    progress = Progress(train_steps, step)
    seconds_before = (workdir.metrics() or [{"wall_seconds": 0.0}])[-1]["wall_seconds"]
    with _Termination() as termination:
        while step < train_steps:
            count = min(config.steps_per_loop, train_steps - step, *(every - step % every for every in events))
            record = {name: float(value) for name, value in device_loop(iterator, tf.constant(count)).items()}
            step += count
            progress.update(step)
            record["images_per_second"] = progress.rate * config.batch_size
            record["wall_seconds"] = seconds_before + progress.seconds
            _refuse_nan(step, record, checkpoints)
            warning = look(step, record)
            if probe and (step == train_steps or (probe_every and step % probe_every == 0)):
                record.update(probe())
            if chief:
                workdir.record(step, record)
                _show(progress, record, warning)
            if step == train_steps or step % config.checkpoint_every == 0 or termination.requested:
                checkpoints.save(step, write=chief)
            if termination.requested and step < train_steps:
                raise Stopped(
                    f"stopped by SIGTERM: saved step {step} in {workdir.path}, the same command goes on from there"
                )
    return {"step": step, **record}


def _resume(checkpoints: Checkpoints, workdir: Workdir, chief: bool) -> int:
    step = checkpoints.restore()
    if step is None:
        step = 0
    else:
        print(f"resuming {workdir.path} from step {step}", flush=True)
    if chief:
        checkpoints.drop_after(step)
        workdir.begin(step)
    return step


def _device_loop(trainee: Trainee) -> Callable:
    strategy = trainee.strategy
    step = tf.autograph.experimental.do_not_convert(trainee.train_step)

    @tf.function
    def run(iterator, count: tf.Tensor) -> dict[str, tf.Tensor]:
        """`count` steps without coming back to Python; the means of what they returned."""
        totals = {name: tf.zeros([]) for name in trainee.metric_names}
        for _ in tf.range(count):
            metrics = strategy.run(step, (next(iterator),))
            mean = {name: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, None) for name, value in metrics.items()}
            totals = {name: total + mean[name] for name, total in totals.items()}
        return {name: total / tf.cast(count, tf.float32) for name, total in totals.items()}

    return run


def _refuse_nan(step: int, record: Record, checkpoints: Checkpoints) -> None:
    """Ends the run before weights that are no longer numbers are saved."""
    bad = [name for name in ("loss", "gradient_norm") if not math.isfinite(record.get(name, 0.0))]
    if bad:
        steps = checkpoints.steps()
        kept = f"the last good checkpoint is {checkpoints.path(steps[-1])}" if steps else "no checkpoint was saved yet"
        raise Diverged(
            f"{bad[0]} is {record[bad[0]]} at step {step}; {kept}. "
            "Try a smaller --learning_rate, some --warmup_steps, or --precision=float32"
        )


def _show(progress: Progress, record: Record, warning: str | None) -> None:
    shown = {"loss": "loss {:.3f}", "accuracy": "accuracy {:.3f}", "bound": "bound {:.2f} nats", "knn": "knn {:.3f}"}
    figures = [text.format(record[name]) for name, text in shown.items() if name in record]
    rate = f"{record['images_per_second']:.3g} images/s" if progress.rate else ""
    print("  ".join([str(progress), *figures, rate]).rstrip(), flush=True)
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


class _Termination:
    """Turns SIGTERM into a request that the loop honours after the steps under way."""

    requested = False

    def __enter__(self) -> _Termination:
        self._before = signal.signal(signal.SIGTERM, self._request)
        return self

    def __exit__(self, *_) -> None:
        signal.signal(signal.SIGTERM, self._before)

    def _request(self, *_) -> None:
        self.requested = True
