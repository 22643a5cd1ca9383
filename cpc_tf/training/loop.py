"""The training loop: device loops of steps, records, checkpoints; it knows nothing of what is trained."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from cpc_tf.settings import RunEnded, Settings, flatten
from cpc_tf.termination import Deferred, Stopped
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.progress import Progress
from cpc_tf.training.trainee import Trainee
from cpc_tf.training.workdir import Workdir

Record = dict


class Outcome(NamedTuple):
    """What a training came to."""

    step: int  # of the weights
    last: Record  # of that step, as metrics.jsonl has it: the same whether the run was killed after it or not
    records: Sequence[Record]  # those of all sessions as metrics.jsonl has them, ascending by 'step'
    seconds: float  # how long all sessions took


class Diverged(RunEnded):
    """The loss, the gradient or the weights are no longer finite."""

    status = 3


def train(
    trainee: Trainee,
    make_dataset: Callable[[int, tf.distribute.InputContext], tf.data.Dataset],
    config: TrainingConfig,
    train_steps: int,
    workdir: Workdir,
    *,
    watch: Callable[[int, Record], str | None] = lambda step, record: None,
    evaluate: Callable[[], Record] | None = None,
    evaluate_every: int = 0,
) -> Outcome:
    """Trains up to `train_steps`, from the newest whole checkpoint of the run if it has one.

    Args:
      make_dataset: (first step, input context) -> infinite per-replica batches from that step on.
      watch: given each record; may return a warning to print.
      evaluate: run every `evaluate_every` steps (0: never) and at the end; its figures join the record.

    Raises:
      Diverged: naming the last good checkpoint.
      Stopped: after SIGTERM or SIGINT, with a checkpoint of the step that was under way.
    """
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint, config.keep_checkpoints)
    records = workdir.records()
    step = _resume(checkpoints, workdir, records, trainee, train_steps)
    records = [record for record in records if record["step"] <= step]
    seconds = records[-1].get("wall_seconds", 0.0) if records else 0.0
    if step >= train_steps:
        if workdir.chief:
            print(f"{workdir.path}: already at step {step} of {train_steps}", flush=True)
        last = records[-1] if records and records[-1]["step"] == step else {"wall_seconds": seconds}
        return Outcome(step, {**last, "step": step}, records, seconds)
    iterator = iter(trainee.strategy.distribute_datasets_from_function(lambda context: make_dataset(step, context)))
    device_loop = _device_loop(trainee)
    events = [every for every in (config.checkpoint_every, evaluate_every) if every]
    progress = Progress(train_steps, step)
    with Deferred() as stop:
        while step < train_steps:
            count = min(config.steps_per_loop, train_steps - step, *(every - step % every for every in events))
            record = {name: float(value) for name, value in device_loop(iterator, tf.constant(count)).items()}
            step += count
            progress.update(step)
            record["images_per_second"] = progress.rate * config.batch_size
            record["wall_seconds"] = seconds + progress.seconds
            _refuse(_not_finite(record), step, checkpoints, workdir.config, trainee.rates)
            warning = watch(step, record)
            if evaluate and (step == train_steps or (evaluate_every and step % evaluate_every == 0)):
                record.update(evaluate())
            records.append(workdir.rounded(step, record))
            workdir.record(step, record)
            if workdir.chief:
                _show(progress, record, warning)
            if stop.number or step == train_steps or step % config.checkpoint_every == 0:
                _refuse(_too_large(trainee), step, checkpoints, workdir.config, trainee.rates)
                checkpoints.save(step, write=workdir.chief)
            if stop.number:
                raise Stopped(stop.number, f"saved step {step} in {workdir.path}")
    return Outcome(step, records[-1], records, records[-1]["wall_seconds"])


def _resume(
    checkpoints: Checkpoints, workdir: Workdir, records: Sequence[Record], trainee: Trainee, train_steps: int
) -> int:
    # Weights whose record is lost are passed over if older ones have theirs: those steps are trained again.
    step = checkpoints.restore(preferred={record["step"] for record in records})
    if step is None:
        step = 0
    elif workdir.chief:
        print(f"resuming {workdir.path} from step {step}", flush=True)
    if workdir.chief:
        checkpoints.drop_after(step)
        checkpoints.drop_unfinished()
    if step >= train_steps:  # nothing is trained, so nothing changes
        workdir.begin(step)
        return step
    schedules = {name: schedule.get_config() for name, schedule in trainee.schedules.items()}
    workdir.begin(step, replicas=trainee.strategy.num_replicas_in_sync, schedules=schedules)
    for schedule in trainee.schedules.values():
        if schedule.warmup_steps > train_steps:
            logging.warning(
                "--warmup_steps=%d: the run has only %d steps, at whose end the learning rate is %.3g in place of %.3g",
                schedule.warmup_steps,
                train_steps,
                float(schedule(train_steps - 1)),
                schedule.rate,
            )
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


def refuse_divergence(scores: Record, config: Settings, rates: Sequence[str] = ("learning_rate",)) -> None:
    """Raises Diverged if a figure of a test is not finite: finite weights can be too large to compute with.

    Args:
      scores: figures by name.
      config: of the run that has trained them; `rates` as of `train`.
    """
    for name, value in scores.items():
        if not math.isfinite(value):
            raise Diverged(f"{name} is {value} when tested, in {config.workdir}. {advice(config, rates)}")


def advice(config: Settings, rates: Sequence[str]) -> str:
    """What to try after divergence, of the flags that a run has."""
    flags = flatten(config)
    tries = ["a smaller " + " and ".join(f"--{name}" for name in rates)]
    if "warmup_steps" in flags and "learning_rate" in rates:
        tries.append("a longer --warmup_steps" if flags["warmup_steps"] else "some --warmup_steps")
    if flags.get("precision", "float32") != "float32":
        tries.append("--precision=float32")
    return f"Try {' or '.join(tries)}"


def _not_finite(record: Record) -> str:
    """Which figure of a training step is no longer finite; empty if they are."""
    bad = [name for name in ("loss", "gradient_norm") if not math.isfinite(record.get(name, 0.0))]
    return f"{bad[0]} is {record[bad[0]]}" if bad else ""


def _too_large(trainee: Trainee) -> str:
    """Which weights are no longer finite, or so large that their squares are not; empty if they are sound."""
    for variable in trainee.trained:
        if variable.dtype.is_floating and not math.isfinite(float(tf.norm(tf.cast(variable, tf.float32)))):
            return f"the norm of {variable.name} is not finite"
    return ""


def _refuse(bad: str, step: int, checkpoints: Checkpoints, config: Settings, rates: Sequence[str]) -> None:
    """Ends the run before weights that are no longer numbers are saved."""
    if bad:
        steps = checkpoints.steps()
        kept = f"the last good checkpoint is {checkpoints.path(steps[-1])}" if steps else "no checkpoint was saved yet"
        raise Diverged(f"{bad} at step {step}; {kept}. {advice(config, rates)}")


def _show(progress: Progress, record: Record, warning: str | None) -> None:
    shown = {"loss": "loss {:.3f}", "accuracy": "accuracy {:.3f}", "bound": "bound {:.2f} nats", "knn": "knn {:.3f}"}
    figures = [text.format(record[name]) for name, text in shown.items() if name in record]
    rate = f"{record['images_per_second']:.3g} images/s" if progress.rate else ""
    print("  ".join([str(progress), *figures, rate]).rstrip(), flush=True)
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
