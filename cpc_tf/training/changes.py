"""What may differ between a run and its resumption, and changes its figures all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cpc_tf.training.schedules import Schedule


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any], step: int) -> list[str]:
    """Sentences for the user, one for each change.

    Args:
      before: the run.json of the sessions so far. What it lacks, since an older version wrote it, is not compared.
      now: the run.json of this session.
      step: at which the run goes on.
    """
    if not step:
        return []
    found = []
    count, other = now.get("replicas"), before.get("replicas")
    if count and isinstance(other, int) and count != other:
        found.append(
            f"this run began on {_replicas(other)} and continues on {_replicas(count)}: each batch is divided among "
            "them, so batch norm and the negatives of --objective see other numbers of images at a time than before"
        )
    rates = []
    for name, schedule in now.get("schedules", {}).items():
        earlier = _schedule(before, name)
        if earlier and earlier.get_config() != schedule:
            rates.append((float(earlier(step - 1)), float(Schedule(**schedule)(step)), earlier, Schedule(**schedule)))
    if rates:
        (_, _, earlier, later), *_ = rates
        was, becomes = (", ".join(f"{pair[side]:.3g}" for pair in rates) for side in (0, 1))
        found.append(
            f"from step {step} on the learning rate follows another schedule, since the length of the run changed: "
            f"{later} in place of {earlier}. It was {was} in the last step and is {becomes} in the next one"
        )
    return found


def _replicas(count: int) -> str:
    return f"{count} replica{'s' if count > 1 else ''}"


def _schedule(about: Mapping[str, Any], name: str) -> Schedule | None:
    """A schedule of a run.json, None if it holds none that can be read."""
    try:
        schedule = Schedule(**about["schedules"][name])
        schedule(0)
        return schedule
    except (KeyError, TypeError, ValueError):
        return None
