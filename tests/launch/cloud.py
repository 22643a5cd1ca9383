"""A Google Cloud in a folder: a fake gcloud on the PATH, and launches on it."""

import os
import pathlib
import shlex
import shutil
import subprocess
from typing import NamedTuple

from cpc_tf.launch import script
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.script import read
from tests.binaries import ROOT

WORDS = [
    "pretrain",
    "--dataset=photos/40",
    "--batch_size=32",
    "--workdir=gs://bucket/runs/x/pretrain",
]
# The end of a training that goes well: its result is in the bucket.
WORKDIR = "$FAKE_GCLOUD/bucket/bucket/runs/x/pretrain"
RESULT = f"mkdir -p {WORKDIR}/checkpoints && echo {{}} > {WORKDIR}/result.json"
# Of a host: what `pip` installs goes into a file, and the input server and the training are scripts of the test.
PYTHON = """#!/usr/bin/env bash
case "$2 $3" in
"pip "*) cat "${@: -1}" >> $FAKE_GCLOUD/pip ;;
"cpc_tf feed") . $FAKE_GCLOUD/feed ;;
"cpc_tf "*) . $FAKE_GCLOUD/training ;;
esac
"""
TRAINING = f"for step in 1 2 3; do echo step $step; done; {RESULT}"


class Ended(NamedTuple):
    """How a launch ended."""

    status: int
    log: str  # of the training
    told: str  # by the script and gcloud


class Cloud:
    """A Google Cloud whose TPUs train with a script of the shell.

    Attributes:
      root: its folder. `root / 'pip'` has what was installed.
      stays: whether there is still a TPU after the test, which no launch may leave without a word.
    """

    def __init__(self, root, monkeypatch):
        self.root, self.stays = root, False
        for name in ("plan", "bin", "bin_of_hosts", "tmp"):
            (root / name).mkdir(parents=True)
        self._program("bin/gcloud", pathlib.Path(__file__).with_name("fake_gcloud.sh").read_text())
        self._program("bin_of_hosts/python3", PYTHON)
        # Of the code nothing: the training is another one.
        (root / "code/cpc_tf").mkdir(parents=True)
        for name in ("requirements.txt", "requirements-gpu.txt"):
            shutil.copy(ROOT / name, root / "code")
        monkeypatch.setattr(script, "_PACKAGE", root / "code/cpc_tf")
        self.train(TRAINING)
        self.feed(
            'echo "input server: ready at port ${4#--port=}"; echo $PWD >> $FAKE_GCLOUD/feeds; sleep 60'
        )
        monkeypatch.setenv("FAKE_GCLOUD", str(root))
        monkeypatch.setenv("PATH", f"{root}/bin", prepend=os.pathsep)
        monkeypatch.setenv("TMPDIR", str(root / "tmp"))
        monkeypatch.chdir(root)

    def train(self, text):
        """Sets the script that is the training. It runs in the folder of the code with the words of `python3`."""
        (self.root / "training").write_text(text + "\n")

    def feed(self, text):
        """Sets the script that is the input server of a host; otherwise as `train`."""
        (self.root / "feed").write_text(text + "\n")

    def plan(self, **steps):
        """Sets what goes wrong: step -> lines, see fake_gcloud."""
        for step, lines in steps.items():
            (self.root / "plan" / step).write_text("".join(line + "\n" for line in lines))

    def fill(self, *words, training=WORDS, **settings):
        """The script of a launch, or the task."""
        config = config_of(**settings)
        return script.fill(config, read(config, [*training, *words]))

    def launch(self, *words, **settings):
        """Launches, and returns how it ended; see `fill`."""
        (self.root / "pid").unlink(missing_ok=True)
        command = ["bash", "-c", self.fill(*words, **settings), "launch"]
        with open(self.root / "log", "w+") as log, open(self.root / "told", "w+") as told:
            process = subprocess.Popen(command, stdout=log, stderr=told)
            (self.root / "pid").write_text(str(process.pid))
            status = process.wait(timeout=60)
            log.seek(0), told.seek(0)
            return Ended(status, log.read(), told.read())

    @property
    def exists(self):
        """Whether there is a TPU."""
        return (self.root / "tpu").exists() or (self.root / "request").exists()

    @property
    def steps(self):
        """The calls of gcloud so far, each as its verb or, on a host, as its command there."""
        return [_step(shlex.split(line)) for line in (self.root / "calls").read_text().splitlines()]

    def close(self):
        """Ends what a failed test left running."""
        while (self.root / "tpu").exists():
            self.plan(delete=[])
            delete = ["compute", "tpus", "tpu-vm", "delete", "cpc", "--zone=europe-west4-a"]
            subprocess.run([self.root / "bin/gcloud", *delete], check=True)

    def _program(self, name, text):
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755)


def config_of(**settings):
    return LaunchConfig(**{"name": "cpc", "zone": "europe-west4-a", "poll": 0.02, **settings})


def _step(words):
    if words[1] == "storage":
        return "fetch"
    group, verb = words[3:5]
    command = next((word for word in words if word.startswith("--command=")), "")
    if command:
        return command.rpartition("host.sh ")[2].split()[0]
    return f"queue_{verb}" if group == "queued-resources" else verb
