"""The TPU of a launch: gets it, waiting as long as it takes, and deletes it."""

from __future__ import annotations

import shlex
import time

from cpc_tf.launch import commands, gcloud
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.waiting import Failed, Wait, say

_LOST = ("PREEMPTED", "TERMINATED", "STOPPED", "HIDDEN", "UNKNOWN")  # states that do not become READY by themselves
_LOST_REQUEST = ("SUSPENDED", "FAILED")
_DELETIONS = 5  # attempts
_ADVICE = {
    "permission": "log in with `gcloud auth login`, take the right --project, enable the TPU API there, or ask for the "
    "role roles/tpu.admin",
    "quota": "the project's quota does not suffice: ask for more at https://cloud.google.com/tpu/docs/quota, or take "
    "another --zone, --accelerator_type or --spot",
}


class Tpu:
    """The TPU that the settings name.

    Attributes:
      ours: whether this launch may delete it: it has asked for it, or goes on with it.
      seen: whether there may be one.
    """

    def __init__(self, config: LaunchConfig):
        self._config = config
        self.ours = self.seen = False
        self._asked = False  # whether a request is in the queue
        self._creating = False  # whether a creation was cut off: the TPU may come later

    def obtain(self) -> None:
        """Returns once the TPU is ready. Creates it if there is none, and anew if it was lost.

        Raises:
          Failed: it is refused, or does not come within --wait_hours.
        """
        wait = Wait(self._config)
        while (state := self.state()) != "READY":
            if state in _LOST:
                self.ours = True  # nothing runs there
                say(f"the TPU {self._config.name} is {state}: deleting what is left of it")
                if not self.delete():
                    wait(f"the TPU {self._config.name} is {state} and not deleted yet")
            elif state:
                wait(f"the TPU {self._config.name} is {state}")
            elif self._config.queue:
                self._queue(wait)
            else:
                self._create(wait)

    def state(self) -> str:
        """Returns the TPU's state, such as READY or PREEMPTED; '' if there is none."""
        return self._ask(commands.describe(self._config)).strip()

    def delete(self) -> bool:
        """Deletes the TPU and its request. Returns whether they are gone."""
        gone = 0
        for attempt in range(_DELETIONS):
            if attempt:
                time.sleep(self._config.poll)
            done = self._delete_once()
            if done.kind == "missing":
                gone += 1
                # After a creation that was cut off look twice: Google may just have begun with it.
                if gone > self._creating:
                    self._creating = self._asked = self.seen = False
                    say(f"the TPU {self._config.name} is deleted")
                    return True
            elif done.status:
                say(f"the TPU {self._config.name} is not deleted yet: {done.why}")
        return False

    @property
    def how_to_delete(self) -> str:
        """The command that deletes it."""
        make = commands.delete_request if self._config.queue else commands.delete
        return shlex.join(make(self._config))

    def _delete_once(self) -> gcloud.Done:
        """Deletes, then looks: a 'missing' answer says that all is gone; another one, why it is not."""
        makes = [commands.delete_request, commands.describe_request] if self._config.queue else []
        answers = [gcloud.call(make(self._config)) for make in (*makes, commands.delete, commands.describe)]
        left = [answer for answer in answers[1::2] if answer.kind != "missing"]
        failed = [answer for answer in answers[::2] if answer.status and answer.kind != "missing"]
        return (failed or left)[0] if left else answers[-1]

    def _create(self, wait: Wait) -> None:
        config = self._config
        if not wait.has_waited:
            what = f"{'spot ' if config.spot else ''}TPU {config.name} ({config.accelerator_type})"
            say(f"creating {what} in {config.zone}")
        self.ours = self.seen = self._creating = True
        done = gcloud.call(commands.create(config))
        self._creating = False
        if done.status:
            self._refused(done, wait)

    def _queue(self, wait: Wait) -> None:
        config = self._config
        state, _, why = self._ask(commands.describe_request(config)).strip().partition("\t")
        if state == "FAILED" and self._asked and gcloud.kind_of(why) != "capacity":
            raise Failed(f"the request for the TPU {config.name} failed: {why or 'Google says no more'}")
        if state in _LOST_REQUEST:
            say(f"the request for the TPU {config.name} is {state}: making another")
            self.ours = True
            if (done := gcloud.call(commands.delete_request(config))).status:
                wait(f"the old request is not deleted yet: {done.why}")
        elif state:
            self.ours = self.seen = True
            wait(f"the request for the TPU {config.name} ({config.accelerator_type}, {config.zone}) is {state}")
        else:
            say(f"asking for TPU {config.name} ({config.accelerator_type}) in {config.zone}, in the queue")
            self.ours = self.seen = self._asked = self._creating = True
            done = gcloud.call(commands.queue(config))
            self._creating = False
            if done.status:
                self._refused(done, wait)

    def _refused(self, done: gcloud.Done, wait: Wait) -> None:
        """Waits where that may help. Raises Failed where it does not."""
        if done.kind == "capacity":
            wait(f"no capacity for {self._config.accelerator_type} in {self._config.zone}")
        elif done.kind in ("connection", "busy", "exists"):
            wait(f"no TPU yet: {done.why}")
        else:
            raise Failed(_with_advice(f"no TPU: {done.why}", done))

    def _ask(self, words: list[str]) -> str:
        """Returns what a question prints; '' if there is nothing of this name. Waits while there is no connection."""
        wait = Wait(self._config)
        while True:
            done = gcloud.call(words, timeout=300)
            if not done.status:
                self.seen = True
                return done.output
            if done.kind == "missing":
                return ""
            message = _with_advice(f"no answer from gcloud: {done.why}", done)
            # A log-in that has expired does not harm a training that runs.
            if not self.ours and done.kind not in ("connection", "busy", "capacity"):
                raise Failed(message)
            wait(message)


def _with_advice(message: str, done: gcloud.Done) -> str:
    """Returns a message with what the user can do, if that is known."""
    return f"{message} ({_ADVICE[done.kind]})" if done.kind in _ADVICE else message
