"""The hosts of a TPU: brings the code, starts the training and follows its log, through connections that may break."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import sys
import tempfile

from cpc_tf.launch import archive, commands, gcloud
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.tpu import Tpu
from cpc_tf.launch.training import Training
from cpc_tf.launch.waiting import Failed, Wait, say
from cpc_tf.settings import ConfigError

_ATTEMPTS = 5  # to run a command on a TPU that is ready, before the training runs
_SAVING = 300  # seconds for the training to end its step and save it
_STOPPED = 143  # status of a training that SIGTERM ended, as when its host is restarted
_LOST_FEED = 8  # status of a training whose feed has not come again, as when another host is restarted


class Lost(Exception):
    """The TPU was preempted, or is not ready any more."""


class Hosts:
    """The hosts of a TPU that is ready, or was.

    Attributes:
      busy: whether our training may be running there.
    """

    def __init__(self, config: LaunchConfig, training: Training, tpu: Tpu):
        self._config, self._training, self._tpu = config, training, tpu
        self._follows = os.getpid() * 100_000  # numbers that no other launch has
        self.busy = False

    def train(self) -> int:
        """Starts the training, unless it runs there already, follows it to its end, and returns its exit status.

        Raises:
          Lost: the TPU was lost.
          ConfigError: another training runs there.
          Failed: a command fails again and again.
        """
        if not self._is_running():
            self._prepare()
            self._start()
        self.busy, position, lost = True, 0, 0
        while True:
            position = self._follow(position)
            state = self._state()
            ended = re.fullmatch(r"ended (\d+) (\d+)", state)
            if ended and int(ended[2]) > position:
                Wait(self._config)("the connection was lost, the training has ended")
                continue
            if ended and int(ended[1]) == _LOST_FEED and lost < self._config.restarts:
                lost += 1
                self._start()
                continue
            if ended and int(ended[1]) != _STOPPED:
                self.busy = False
                return int(ended[1])
            if state.startswith("running"):
                Wait(self._config)("the connection was lost, the training goes on")
            else:
                Wait(self._config)("the host was restarted, the training starts again")
                self._start()

    def stop(self) -> None:
        """Lets a running training save its step and end."""
        if self.busy:
            self.busy = False
            say(f"the training saves its step, for at most {_SAVING} s")
            gcloud.call(commands.stop(self._config, _SAVING), timeout=_SAVING + 30)

    def _is_running(self) -> bool:
        """Returns whether our training runs already, from an earlier launch. From here on the TPU is ours."""
        running = re.fullmatch(r"running (.*)", self._state())
        if running and running[1] != self._training.title:
            raise ConfigError(
                f"--name={self._config.name}: on this TPU runs `{running[1]}`; take another --name for another run"
            )
        if not self._tpu.ours:
            say(f"goes on with the TPU {self._config.name}, which is there already, and deletes it in the end")
            self._tpu.ours = True
        if running:
            say("the training runs already; its log:")
        return bool(running)

    def _prepare(self) -> None:
        """Brings the code and what it needs to all hosts."""
        with tempfile.TemporaryDirectory(prefix="cpc_tf_launch") as folder:
            path = os.path.join(folder, "cpc_tf.tar.gz")
            archive.write(path, self._config, self._training)
            say("shipping the code")
            self._call(commands.ship(self._config, path))
        say("installing what it needs")
        self._call(commands.install(self._config))

    def _start(self) -> None:
        """Starts the training on the first host, and before it a feed on each host that lacks one."""
        if self._training.is_fed:
            say("starting a feed beside each host")
            self._call(commands.feed(self._config))
        say(f"starting {self._training.title}")
        self._call(commands.start(self._config, self._training))

    def _follow(self, position: int) -> int:
        """Prints the log from byte `position` on until the training ends or the connection breaks; returns its end."""
        self._follows += 1
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # An error of the process is a lost connection; a terminal that is gone is no reason to stop.
        with (
            contextlib.suppress(OSError),
            gcloud.started(commands.follow(self._config, self._follows, position)) as process,
        ):
            while piece := process.stdout.read1(2**16):
                position += len(piece)
                with contextlib.suppress(OSError):
                    sys.stdout.write(decoder.decode(piece))
                    sys.stdout.flush()
        return position

    def _state(self) -> str:
        """Returns 'running TITLE', 'ended STATUS BYTES_OF_LOG', or '' where nothing was started or it was cut off."""
        found = re.search(r"^launch: (.*)$", self._call(commands.state(self._config)), re.MULTILINE)
        return found[1] if found else ""

    def _call(self, words: list[str]) -> str:
        """Runs a command until it succeeds, and returns its output. Raises Lost, or Failed if that does not come."""
        wait, failures = Wait(self._config), 0
        while True:
            done = gcloud.call(words)
            if not done.status:
                return done.output
            if (state := self._tpu.state()) != "READY":
                raise Lost(f"the TPU {self._config.name} is {state or 'gone'}")
            failures += 1
            if failures == _ATTEMPTS and not self.busy:  # a training that runs needs no connection
                raise Failed(f"a command on the TPU failed {failures} times: {done.why}")
            wait(f"a command on the TPU does not succeed yet: {done.why}")
