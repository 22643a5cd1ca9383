"""What reads directories of which a file is damaged: checkpoints, runs, results, modules."""

from __future__ import annotations

import json
import shutil
from unittest import mock

import numpy as np
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.report.page import files
from cpc_tf.results import plots
from cpc_tf.results.runs import collect
from cpc_tf.settings import ConfigError
from cpc_tf.tasks import TASKS, read_task
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import Workdir, read_config
from tests import modules, samples
from tests.faults import mutate
from tests.faults.target import Target, refused
from tests.results import samples as results


class Directory(Target):
    """A subclass writes ROOM/sound. A case is the number of a file there, a byte, and its damaged content."""

    def list(self):
        """Call it when the directory is written."""
        self.files = sorted(path for path in (self.room / "sound").rglob("*") if path.is_file())

    def case(self, random):
        chosen = int(random.integers(len(self.files)))
        return bytes([chosen]) + mutate.damaged(random, [self.files[chosen].read_bytes()])

    def broken(self, data):
        """A copy of the directory with the damaged file."""
        shutil.copytree(self.room / "sound", self.room / "broken", dirs_exist_ok=True)
        (self.room / "broken" / self.files[data[0]].relative_to(self.room / "sound")).write_bytes(data[1:])
        return self.room / "broken"


class CheckpointFiles(Directory):
    """Checkpoints.restore: the values of the step that it returns, or ConfigError."""

    STEPS = (10, 20)

    def __init__(self, room):
        super().__init__(room)
        self.state = {name: tf.Variable(tf.zeros([50])) for name in ("weights", "moments")}
        for step in self.STEPS:
            self._fill(step)
            self._checkpoints(room / "sound").save(step)
        self.list()

    def _checkpoints(self, where):
        return Checkpoints(str(where), tf.train.Checkpoint(**self.state))

    def _fill(self, value):
        for variable in self.state.values():
            variable.assign(tf.fill([50], float(value)))

    def check(self, data):
        broken = self.broken(data)
        self._fill(-1)
        try:
            step = self._checkpoints(broken).restore()
        except ConfigError as error:
            return refused(error)
        assert step in self.STEPS
        assert all(np.all(variable.numpy() == step) for variable in self.state.values()), "wrong in silence"
        return True


class RunFiles(Directory):
    """The run is opened, or refused by a ConfigError."""

    def __init__(self, room):
        super().__init__(room)
        workdir = Workdir(self._config("sound"), "pretrain")
        workdir.begin(0)
        for step in range(1, 4):
            workdir.record(step, {"loss": 1.0 / step, "wall_seconds": float(step)})
        workdir.finish({"dataset": "photos/40", "encoder": "small", "step": 3, "loss": 1 / 3})
        shutil.rmtree(workdir.file("events"))  # which nobody reads
        self.list()

    def _config(self, name):
        return cli.parse(TASKS["pretrain"].config, [*samples.PRETRAIN, f"--workdir={self.room}/{name}"])

    def check(self, data):
        self.broken(data)
        return all([self._accepted(read) for read in (self._open, self._tell)])

    def _accepted(self, read):
        try:
            read()
        except ConfigError as error:
            return refused(error)
        return True

    def _open(self):
        workdir = Workdir(self._config("broken"), "pretrain")
        workdir.records()
        workdir.result()

    def _tell(self):
        task = read_task(str(self.room / "broken"))
        read_config(str(self.room / "broken"), task.config)


class Results(Directory):
    """There is a page, with one run less at most."""

    def __init__(self, room):
        super().__init__(room)
        results.all_kinds(room / "sound")
        self.list()
        runs, problems = collect(str(room / "sound"), TASKS)
        self.counts = len(runs), len(problems)

    def check(self, data):
        runs, problems = collect(str(self.broken(data)), TASKS)
        with mock.patch.object(plots, "png", return_value=b"png"):
            made = files(runs, problems, "runs")
        for content in made.values():
            assert isinstance(content, bytes) or content.encode()
        json.loads(made["report.json"], parse_constant=self._not_strict)
        assert len(runs) >= self.counts[0] - 1
        return len(problems) == self.counts[1]

    @staticmethod
    def _not_strict(constant):
        raise AssertionError(f"{constant} in report.json")


class Modules(Directory):
    """load_feature_maps and load_patch_encoder: features of the promised shape, or ConfigError."""

    def __init__(self, room):
        super().__init__(room)
        modules.write_module(room / "sound")
        self.list()

    def check(self, data):
        broken = self.broken(data)
        return all([self._accepted(self._maps, broken), self._accepted(self._latents, broken)])

    def _accepted(self, make, broken):
        try:
            encoder = make(str(broken))
            assert encoder.identity
        except ConfigError as error:
            return refused(error)
        if make == self._maps:
            assert encoder(tf.zeros([1, 16, 16, 3])).shape.rank == 4
        else:
            assert encoder.patch_latents(tf.zeros([1, 2, 2, 8, 8, 3], tf.uint8)).shape[:3] == [1, 2, 2]
        return True

    @staticmethod
    def _maps(module):
        return load_feature_maps(module, "feature_map", 16, backbone="tiny")

    @staticmethod
    def _latents(module):
        return load_patch_encoder(module, patch_size=8)
