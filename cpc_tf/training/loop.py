"""The training loop: device loops of steps, records, checkpoints; it knows nothing of what is trained."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.files import bytes_read
from cpc_tf.settings import RunEnded, Settings, flatten
from cpc_tf.termination import Deferred, Stopped
from cpc_tf.training import cluster, waiting
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.progress import Progress
from cpc_tf.training.resume import resume
from cpc_tf.training.trainee import Trainee
from cpc_tf.training.workdir import Workdir

Record = dict


class Outcome(NamedTuple):
    """The end of a training."""

    step: int  # of the weights
    last: Record  # of that step, as metrics.jsonl has it: the same whether the run was killed after it or not
    records: Sequence[Record]  # of all sessions, as metrics.jsonl has them, ascending by 'step'
    seconds: float  # of all sessions


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
    ended: Callable[[Sequence[Record]], bool] = lambda records: False,
) -> Outcome:
    """Trains up to `train_steps`, from the newest whole checkpoint of the run if it has one.

    Args:
      make_dataset: (first step, input context) -> infinite per-replica batches from that step on.
      watch: called with each record; may return a warning to print.
      evaluate: called every `evaluate_every` steps (0: never) and at the end; its metrics join the record.
      ended: called with all records, at the start and after each; whether the training ends before `train_steps`.

    Raises:
      Diverged: the message names the last good checkpoint.
      Stopped: after SIGTERM or SIGINT, with a checkpoint of the step that was under way.
    """
    checkpoints = Checkpoints(workdir.path, trainee.checkpoint, config.keep_checkpoints)
    records = workdir.records()
    step = resume(trainee, checkpoints, records, train_steps, workdir)
    records = [record for record in records if record["step"] <= step]
    seconds = records[-1].get("wall_seconds", 0.0) if records else 0.0
    if ended(records) or step >= train_steps:
        if workdir.chief:
            print(f"{workdir.path}: already at step {step} of {train_steps}", flush=True)
        last = records[-1] if records and records[-1]["step"] == step else {"wall_seconds": seconds}
        return Outcome(step, {**last, "step": step}, records, seconds)

    def diverged(bad: str) -> Diverged:
        steps = checkpoints.steps()
        kept = f"the last good checkpoint is {checkpoints.path(steps[-1])}" if steps else "no checkpoint was saved yet"
        return Diverged(f"{bad} at step {step}; {kept}. {advice(workdir.config, trainee.rates)}")

    measured = waiting.is_measured(trainee.strategy)
    iterator = iter(
        trainee.strategy.distribute_datasets_from_function(
            lambda context: waiting.timed(make_dataset(step, context), measured)
        )
    )
    device_loop = _device_loop(trainee)
    events = [every for every in (config.checkpoint_every, evaluate_every) if every]
    progress, shown = Progress(train_steps, step), False
    with Deferred() as stop:
        while step < train_steps:
            count = min(config.steps_per_loop, train_steps - step, *(every - step % every for every in events))
            record = {name: float(value) for name, value in device_loop(iterator, tf.constant(count)).items()}
            step += count
            progress.update(step)
            record["images_per_second"] = progress.rate * config.batch_size
            record["wall_seconds"] = seconds + progress.seconds
            if (read := bytes_read()) is not None:
                record["read_gb"] = read / 1e9  # by this process since its start
            for name in ("loss", "gradient_norm"):
                if not math.isfinite(record.get(name, 0.0)):
                    raise diverged(f"{name} is {record[name]}")
            warning = watch(step, record)
            if evaluate and (step == train_steps or (evaluate_every and step % evaluate_every == 0)):
                record.update(evaluate())
            records.append(workdir.rounded(step, record))
            workdir.record(step, record)
            finished = ended(records) or step == train_steps
            if workdir.chief:
                _show(progress, record, warning)
                # Not of the first loop, in which the input begins and the step is compiled.
                if progress.rate and record.get("waiting", 0.0) > waiting.SHOWN and not shown:
                    print(f"waiting for data: {record['waiting']:.0%} of a step; see docs/speed.md", flush=True)
                    shown = True
            # A signal to one process stops all, after the same step.
            stopped = cluster.total(trainee.strategy, stop.number)
            if stopped or finished or step % config.checkpoint_every == 0:
                for variable in trainee.trained:
                    # A norm that is not finite: the weights are not, or too large to be squared.
                    if variable.dtype.is_floating and not math.isfinite(tf.norm(tf.cast(variable, tf.float32))):
                        raise diverged(f"the norm of {variable.name} is not finite")
                checkpoints.save(step, write=workdir.chief)
            if stopped:
                cluster.total(trainee.strategy, 1)  # none ends before all have saved
                raise Stopped(stop.number or signal.SIGTERM, f"saved step {step} in {workdir.path}")
            if finished:
                break
    return Outcome(step, records[-1], records, records[-1]["wall_seconds"])


def _device_loop(trainee: Trainee) -> Callable:
    strategy = trainee.strategy
    step = tf.autograph.experimental.do_not_convert(trainee.train_step)
    measured = waiting.is_measured(strategy)

    @tf.function
    def run(iterator, count: tf.Tensor) -> dict[str, tf.Tensor]:
        """Runs `count` steps without returning to Python and returns the means of their metrics.

        'waiting' is the share of the time in which a step had ended and the batch of the next one was not ready.
        """
        totals = {name: tf.zeros([]) for name in trainee.reported}
        began = waiting.now() if measured else None
        waited, last = tf.zeros([], tf.float64), tf.zeros([])
        for _ in tf.range(count):
            element = next(iterator)
            if measured:
                # On GPUs the host is ahead: this waits for the step before while the next is already under way.
                ready = strategy.experimental_local_results(element["ready"])[-1]
                waited += tf.maximum(ready - waiting.now(after=last), 0)
            metrics = strategy.run(step, element["batch"])
            mean = {name: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, None) for name, value in metrics.items()}
            totals = {name: total + mean[name] for name, total in totals.items()}
            last = tf.add_n(list(mean.values()))
        means = {name: total / tf.cast(count, tf.float32) for name, total in totals.items()}
        return {**means, "waiting": waited / (waiting.now(after=last) - began)} if measured else means

    return run


def _show(progress: Progress, record: Record, warning: str | None) -> None:
    shown = {"loss": "loss {:.3f}", "accuracy": "accuracy {:.3f}", "bound": "bound {:.2f} nats", "knn": "knn {:.3f}"}
    figures = [text.format(record[name]) for name, text in shown.items() if name in record]
    rate = f"{record['images_per_second']:.3g} images/s" if progress.rate else ""
    print("  ".join([str(progress), *figures, rate]).rstrip(), flush=True)
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def refuse_divergence(scores: Record, config: Settings, rates: Sequence[str] = ("learning_rate",)) -> None:
    """Raises Diverged if a test score is not finite: finite weights can be too large to compute with.

    Args:
      scores: values by name.
      config: the settings of the run.
      rates: the flags of its learning rates.
    """
    for name, value in scores.items():
        if not math.isfinite(value):
            raise Diverged(f"{name} is {value} when tested, in {config.workdir}. {advice(config, rates)}")


def advice(config: Settings, rates: Sequence[str]) -> str:
    """Returns what to try after divergence with the flags that a run has."""
    flags = flatten(config)
    tries = ["a smaller " + " and ".join(f"--{name}" for name in rates)]
    if "warmup_steps" in flags and "learning_rate" in rates:
        tries.append("a longer --warmup_steps" if flags["warmup_steps"] else "some --warmup_steps")
    if flags.get("precision", "float32") != "float32":
        tries.append("--precision=float32")
    return f"Try {' or '.join(tries)}"
