"""The training loop: device loops of steps, records and checkpoints, whatever is trained; and where
a run resumes.
"""

from __future__ import annotations

import contextlib
import functools
import math
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from cpc_tf.core.files import bytes_read
from cpc_tf.core.progress import Progress, waiting_for
from cpc_tf.core.settings import RunEnded, Settings, Stopped, flatten
from cpc_tf.core.termination import Deferred
from cpc_tf.core.texts import listed
from cpc_tf.training import cluster, data_service
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.optimizer import Schedule
from cpc_tf.training.trainee import Trainee
from cpc_tf.training.workdir import Workdir

Record = dict
_CHECKED = ("loss", "gradient_norm")  # whose means must be finite
_LONG_WAIT = 0.1  # share of the time of a step from which on waiting for data is mentioned


class Outcome(NamedTuple):
    """The end of a training."""

    step: int  # of the weights
    # of that step, as metrics.jsonl has it: the same whether the run was killed after it or not
    last: Record
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
    between: Callable[[int], None] | None = None,
    between_every: int = 0,
) -> Outcome:
    """Trains up to `train_steps`. The start is decided in this order:

    1. The newest whole checkpoint is restored, see `resume`. A run that has ended there, by its
       records or at `train_steps`, returns its last record and trains nothing; another one resumes.
    2. Without a checkpoint, the run begins from scratch: with the values that the trainee has.

    Args:
      make_dataset: (first step, input context) -> infinite per-replica batches from that step on.
      watch: called with each record; may return a warning to print.
      evaluate: called every `evaluate_every` steps (0: never) and at the end; its metrics join the
        record.
      evaluate_every: steps at whose multiples a record ends.
      ended: called with all records, at the start and after each; whether the training ends before
        `train_steps`.
      between: called with the step before the first one and after every `between_every` steps but
        the last, to change variables that the checkpoint holds. A run that goes on from such a step
        calls it again, since the run may have ended there before and been made longer; with the
        same variables it must do the same.

    Raises:
      Diverged: the message names the last good checkpoint.
      Stopped: after SIGTERM or SIGINT, with a checkpoint of the step that was under way. Before the
        first record there is nothing to save, and a signal ends the run as it does elsewhere.
    """
    # The start.
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

    def diverged(what: str, where: str = "") -> Diverged:
        steps = checkpoints.steps()
        saved = "no checkpoint was saved yet"
        if steps:
            saved = f"the last good checkpoint is {checkpoints.path(steps[-1])}"
        return Diverged(
            f"{what} at step {step}{where}; {saved}. {advice(workdir.config, trainee.rates)}"
        )

    # The batches, and the steps on the device.
    strategy = trainee.strategy
    # On a TPU's hosts, which need not run this program, there is no clock.
    measured = not isinstance(strategy, tf.distribute.TPUStrategy)
    timed = functools.partial(_timed, measured=measured)
    batches = strategy.distribute_datasets_from_function(
        lambda context: timed(make_dataset(step, context))
    )
    iterator = iter(batches)
    device_loop = _device_loop(trainee, measured)
    events = [every for every in (config.checkpoint_every, evaluate_every, between_every) if every]
    progress = Progress(train_steps, step)
    mentioned = False
    with waiting_for("tracing a training step"):
        device_loop.get_concrete_function(iterator, tf.constant(1))
    between_cost: Record = {}
    if between and step % between_every == 0:
        between_cost = _cost_per_step(between, step, between_every)

    with Deferred() as stop:
        while step < train_steps:
            # As many steps as there are before something is to be done.
            count = min(
                config.steps_per_loop,
                train_steps - step,
                *(every - step % every for every in events),
            )
            # The first time they are compiled, and their input begins.
            first = waiting_for(f"compiling and taking the first {count} steps")
            shown = contextlib.nullcontext() if progress.started else first
            with shown, data_service.explained(config.data_service):
                means, origin = device_loop(iterator, tf.constant(count))
            stop.begin()  # not before: the first call traces and compiles, for minutes

            # Their metrics, which are waited for before the time is taken.
            record = {name: float(value) for name, value in means.items()}
            step += count
            progress.update(step)
            if "waiting" in record:
                record["waiting"], slowest = _longest_wait(strategy, record["waiting"])
            record.update(_resources(progress, config.batch_size, seconds))
            for name in _CHECKED:
                if not math.isfinite(record.get(name, 0.0)):
                    where = _where(strategy, step - count, origin)
                    raise diverged(f"{name} is {record[name]}", where)

            # What the caller does at some steps.
            warning = watch(step, record)
            is_due = evaluate_every and step % evaluate_every == 0
            if evaluate and (is_due or step == train_steps):
                record.update(evaluate())
            if between and step % between_every == 0 and step < train_steps:
                between_cost = _cost_per_step(between, step, between_every)
            record.update(between_cost)

            # The record.
            records.append(workdir.rounded(step, record))
            workdir.record(step, record)
            finished = ended(records) or step == train_steps
            if workdir.chief:
                _show(progress, record, warning)
                # Not of the first loop, in which the input begins and the step is compiled.
                if progress.rate and record.get("waiting", 0.0) > _LONG_WAIT and not mentioned:
                    share = f"{record['waiting']:.0%} of a step{slowest}"
                    print(f"waiting for data: {share}; see docs/scale.md", flush=True)
                    mentioned = True

            # The checkpoint. A signal to one process stops all, after the same step.
            stopped = cluster.total(strategy, stop.number)
            if stopped or finished or step % config.checkpoint_every == 0:
                if bad := _not_finite(trainee.trained):
                    raise diverged(f"the norm of {bad} is not finite")
                checkpoints.save(step, cluster.process(strategy))
            if stopped:
                cluster.leave(strategy)  # none ends before all have saved
                raise Stopped(stop.number or signal.SIGTERM, f"saved step {step} in {workdir.path}")
            if finished:
                break
    return Outcome(step, records[-1], records, records[-1]["wall_seconds"])


def resume(
    trainee: Trainee,
    checkpoints: Checkpoints,
    records: Sequence[dict],
    train_steps: int,
    workdir: Workdir,
) -> int:
    """Restores a checkpoint, prepares the directory and returns the step. The order of preference:

    1. the newest whole checkpoint whose metrics were recorded: the steps after it are trained
    again;
    2. the newest whole one;
    3. none: the step is 0.

    Warns of what changes the run's figures.
    """
    # The chief alone looks which checkpoint is whole.
    step = 0
    if workdir.chief:
        step = checkpoints.restore(preferred={record["step"] for record in records}) or 0
    step = cluster.total(trainee.strategy, step)
    if step and not workdir.chief:
        checkpoints.restore_step(step)
    cluster.barrier(trainee.strategy)  # nothing is removed before all have read
    if workdir.chief:
        if step:
            print(f"resuming {workdir.path} from step {step}", flush=True)
        checkpoints.drop_after(step)
        checkpoints.drop_unfinished()
    if step >= train_steps:  # nothing is left to train
        workdir.begin(step)
        return step

    # What the run's figures depend on beside its flags.
    schedules = {name: schedule.get_config() for name, schedule in trainee.schedules.items()}
    session = {"replicas": trainee.strategy.num_replicas_in_sync, "schedules": schedules}
    if workdir.config.data.share_records:
        session["hosts"] = cluster.hosts(trainee.strategy)
    if trainee.follows_length:
        session["train_steps"] = train_steps
    before = workdir.begin(step, **session)
    if workdir.chief and step:
        for message in describe_changes(before, session, step, trainee.follows_length):
            logging.warning("%s: %s", workdir.path, message)
    for schedule in trainee.schedules.values():
        if schedule.warmup_steps > train_steps:
            logging.warning(
                "--warmup_steps=%d: the run has only %d steps, at whose end the learning rate is"
                " %.3g in place of %.3g",
                schedule.warmup_steps,
                train_steps,
                float(schedule(train_steps - 1)),
                schedule.rate,
            )
    return step


def describe_changes(
    before: Mapping[str, Any], now: Mapping[str, Any], step: int, follows: str = ""
) -> list[str]:
    """Returns a sentence for each allowed change that affects the figures of a resumed run.

    Args:
      before: run.json of the sessions so far. What is missing or damaged there is not compared.
      now: the same of this session.
      step: the step that the run resumes from.
      follows: `Trainee.follows_length`.
    """
    changes = []
    rates = []
    hosts = now.get("hosts")
    if before.get("hosts", hosts) != hosts:
        changes.append(
            f"--share_records: from step {step} on {hosts} hosts share the records, not"
            f" {before['hosts']} as before: the images come in another order, and in this epoch"
            " some come twice and some not at all"
        )
    length = now.get("train_steps")
    length_before = before.get("train_steps")
    if follows and isinstance(length_before, int) and length_before != length:
        changes.append(
            f"from step {step} on {follows} follows another schedule, since the length of the run"
            f" changed: it ends at step {length} in place of step {length_before}"
        )
    for name, config in now["schedules"].items():
        try:
            earlier = Schedule(**before["schedules"][name])
            later = Schedule(**config)
            if earlier.get_config() != config:
                was = f"{float(earlier(step - 1)):.3g}"
                becomes = f"{float(later(step)):.3g}"
                rates.append((was, becomes, f"{later} in place of {earlier}"))
        except (KeyError, TypeError, ValueError):
            continue
    if rates:
        was, becomes, schedules = zip(*rates)
        changes.append(
            f"from step {step} on the learning rate follows another schedule, since the length of"
            f" the run changed: {schedules[0]}. It was {', '.join(was)} in the last step and is"
            f" {', '.join(becomes)} in the next one"
        )
    return changes


def _resources(progress: Progress, batch_size: int, seconds: float) -> Record:
    """Returns the speed and the time of the run, `seconds` of it in sessions before, and what this
    process has used.
    """
    resources = {
        "images_per_second": progress.rate * batch_size,
        "wall_seconds": seconds + progress.seconds,
        "cpu_seconds": time.process_time(),
    }
    if (read := bytes_read()) is not None:
        resources["read_gb"] = read / 1e9
    return resources


def _cost_per_step(between: Callable[[int], None], step: int, every: int) -> Record:
    """Calls what is done every so many steps, and returns what it took for each of them."""
    wall, cpu = time.monotonic(), time.process_time()
    between(step)
    return {
        "between_wall_seconds": (time.monotonic() - wall) / every,
        "between_cpu_seconds": (time.process_time() - cpu) / every,
    }


def _device_loop(trainee: Trainee, measured: bool) -> Callable:
    """Returns (iterator, number of steps) -> (means of the metrics of all replicas, `_Origin`).

    Waiting for data is `measured` by the times of `_timed`.
    """
    strategy = trainee.strategy
    step = tf.autograph.experimental.do_not_convert(trainee.train_step)
    processes = max(1, len(cluster.addresses(strategy)))
    replicas = strategy.num_replicas_in_sync // processes  # of this process

    @tf.function
    def run(iterator, count: tf.Tensor) -> tuple[dict[str, tf.Tensor], _Origin]:
        """Runs `count` steps without returning to Python and returns the means of their metrics.

        'waiting' is the share of the time in which a step had ended and the batch of the next one
        was not ready.
        """
        totals = {name: tf.zeros([]) for name in trainee.reported}
        began = _clock() if measured else None
        waited = tf.zeros([], tf.float64)
        last = tf.zeros([])
        bad_step = tf.constant(-1)
        bad = tf.zeros([replicas], tf.bool)
        for number in tf.range(count):
            element = next(iterator)
            if measured:
                # On GPUs the host is ahead: this waits for the step before while the next is
                # already under way.
                ready = strategy.experimental_local_results(element["ready"])[-1]
                waited += tf.maximum(ready - _clock(after=last), 0)
            metrics = strategy.run(step, element["batch"])
            mean = {
                name: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, None)
                for name, value in metrics.items()
            }
            totals = {name: total + mean[name] for name, total in totals.items()}
            last = tf.add_n(list(mean.values()))
            checked = tf.add_n([mean[name] for name in _CHECKED if name in mean])
            if not tf.math.is_finite(checked) and bad_step < 0:
                # From the next step on the weights of all are not finite.
                losses = strategy.experimental_local_results(metrics["loss"])
                bad_step = number
                bad = tf.logical_not(tf.math.is_finite(tf.stack(losses)))
        means = {name: total / tf.cast(count, tf.float32) for name, total in totals.items()}
        if measured:
            means["waiting"] = waited / (_clock(after=last) - began)
        return means, _Origin(bad_step, bad)

    return run


def _timed(dataset: tf.data.Dataset, measured: bool) -> tf.data.Dataset:
    """Returns {'batch': the dataset's element} and, if `measured`, 'ready': the time at which it
    was ready.
    """
    return dataset.map(lambda *batch: {"batch": batch, **({"ready": _clock()} if measured else {})})


def _clock(after: tf.Tensor | float = 0.0) -> tf.Tensor:
    """Returns the time once the scalar `after` is computed: seconds, float64 scalar."""
    # tf.timestamp is refused with --deterministic.
    return tf.ensure_shape(tf.numpy_function(lambda _: time.monotonic(), [after], tf.float64), [])


class _Origin(NamedTuple):
    """Where metrics began not to be finite."""

    step: tf.Tensor  # int32 scalar, from 0 in these steps; -1: they are finite
    # bool [replicas of this process]: whether its loss was not finite in that step
    replicas: tf.Tensor


def _where(strategy: tf.distribute.Strategy, before: int, origin: _Origin) -> str:
    """Returns the step and the replicas in which metrics began not to be finite, for a message."""
    number = int(origin.step)
    if number < 0:
        return ""
    since = f"since step {before + number + 1}"
    if strategy.num_replicas_in_sync == 1:
        return f" ({since})"
    bad = cluster.gathered(strategy, origin.replicas.numpy()[:, None].astype(int))[:, 0]
    names = [name for name, is_bad in zip(cluster.replica_names(strategy), bad) if is_bad]
    if bad.all():
        replicas = "all replicas"
    elif names:
        replicas = f"{listed(names)} alone"
    else:
        replicas = "no replica"
    return f" ({since}, in which the loss of {replicas} was not finite)"


def _longest_wait(strategy: tf.distribute.Strategy, share: float) -> tuple[float, str]:
    """Returns the largest share of waiting of all processes and, of several, the words that name
    its process.
    """
    hosts = cluster.addresses(strategy)
    if not hosts:
        return share, ""
    millionths = round(1e6 * share) if math.isfinite(share) else 0
    shares = cluster.gathered_of_processes(strategy, [millionths])[:, 0]
    return float(shares.max()) / 1e6, f" at {hosts[shares.argmax()]}"


def _not_finite(variables: Sequence[tf.Variable]) -> str | None:
    """Returns the name of a variable whose norm is not finite: its values are not, or too large to
    be squared.
    """
    for variable in variables:
        if variable.dtype.is_floating and not math.isfinite(tf.norm(tf.cast(variable, tf.float32))):
            return variable.name
    return None


def _show(progress: Progress, record: Record, warning: str | None) -> None:
    formats = {
        "loss": "loss {:.3f}",
        "accuracy": "accuracy {:.3f}",
        "bound": "bound {:.2f} nats",
        "knn": "knn {:.3f}",
    }
    figures = [text.format(record[name]) for name, text in formats.items() if name in record]
    rate = f"{record['images_per_second']:.3g} images/s" if progress.rate else ""
    print("  ".join([str(progress), *figures, rate]).rstrip(), flush=True)
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)


def refuse_divergence(
    scores: Record, config: Settings, rates: Sequence[str] = ("learning_rate",)
) -> None:
    """Raises Diverged if a test score is not finite: finite weights can be too large to compute
    with.

    Args:
      scores: values by name.
      config: the settings of the run.
      rates: the flags of its learning rates.
    """
    for name, value in scores.items():
        if not math.isfinite(value):
            raise Diverged(
                f"{name} is {value} when tested, in {config.workdir}. {advice(config, rates)}"
            )


def advice(config: Settings, rates: Sequence[str]) -> str:
    """Returns what to try after divergence with the flags that a run has."""
    flags = flatten(config)
    tries = ["a smaller " + " and ".join(f"--{name}" for name in rates)]
    if "warmup_steps" in flags and "learning_rate" in rates:
        tries.append("a longer --warmup_steps" if flags["warmup_steps"] else "some --warmup_steps")
    if config.numerics.precision != "float32":
        tries.append("--precision=float32")
    return f"Try {' or '.join(tries)}"
