"""Where a run resumes, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging

from cpc_tf.settings import flatten
from cpc_tf.training import cluster
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.optimizer import Schedule
from cpc_tf.training.trainee import Trainee
from cpc_tf.training.workdir import Workdir


def resume(
    trainee: Trainee, checkpoints: Checkpoints, records: Sequence[dict], train_steps: int, workdir: Workdir
) -> int:
    """Restores the newest whole checkpoint, prepares the directory and returns the step, 0 without a checkpoint.

    Warns of what changes the run's figures.
    """
    # Prefers checkpoints whose metrics were recorded, even older ones: the steps after them are trained again.
    step = checkpoints.restore(preferred={record["step"] for record in records}) or 0 if workdir.chief else 0
    step = cluster.total(trainee.strategy, step)  # of all processes, the chief alone looks what is whole
    if step and not workdir.chief:
        checkpoints.restore_step(step)
    cluster.total(trainee.strategy, 1)  # nothing is removed before all have read
    if workdir.chief:
        if step:
            print(f"resuming {workdir.path} from step {step}", flush=True)
        checkpoints.drop_after(step)
        checkpoints.drop_unfinished()
    if step >= train_steps:  # nothing is left to train
        workdir.begin(step)
        return step
    schedules = {name: schedule.get_config() for name, schedule in trainee.schedules.items()}
    session = {"replicas": trainee.strategy.num_replicas_in_sync, "schedules": schedules}
    if flatten(workdir.config).get("share_records"):
        session["hosts"] = cluster.hosts(trainee.strategy)
    before = workdir.begin(step, **session)
    for message in describe_changes(before, session, step) if workdir.chief and step else ():
        logging.warning("%s: %s", workdir.path, message)
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


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any], step: int) -> list[str]:
    """Returns a sentence for each allowed change that affects the figures of a resumed run.

    Args:
      before: run.json of the sessions so far. What is missing or damaged there is not compared.
      now: the same of this session.
      step: the step that the run resumes from.
    """
    changes, rates = [], []
    hosts = now.get("hosts")
    if before.get("hosts", hosts) != hosts:
        changes.append(
            f"--share_records: from step {step} on {hosts} hosts share the records, not {before['hosts']} as before: "
            "the images come in another order, and in this epoch some come twice and some not at all"
        )
    for name, config in now["schedules"].items():
        try:
            earlier, later = Schedule(**before["schedules"][name]), Schedule(**config)
            if earlier.get_config() != config:
                rates.append((f"{float(earlier(step - 1)):.3g}", f"{float(later(step)):.3g}", earlier, later))
        except (KeyError, TypeError, ValueError):
            continue
    if not rates:
        return changes
    was, becomes, (earlier, *_), (later, *_) = zip(*rates)
    return [
        *changes,
        f"from step {step} on the learning rate follows another schedule, since the length of the run changed: "
        f"{later} in place of {earlier}. It was {', '.join(was)} in the last step and is {', '.join(becomes)} in "
        "the next one",
    ]
