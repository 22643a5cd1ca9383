"""What is attacked: files of runs, of results and of modules, damaged in their places."""

from __future__ import annotations

import json
import shutil
from unittest import mock

import numpy as np
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.drawing import plots
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.report.page import REPORTS, files
from cpc_tf.report.runs import collect
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import Workdir, read_config, read_task
from tests import modules, samples
from tests.faults.targets import Target, accepted, damaged
from tests.report import samples as results


class Directory(Target):
    """A directory of which a file is damaged. A case is the number of a file in ROOM/sound and its
    damaged content.
    """

    def case(self, random):
        files = self._files()
        chosen = int(random.integers(len(files)))
        return bytes([chosen]) + damaged(random, [files[chosen].read_bytes()])

    def broken(self, data):
        """A copy of the directory with the damaged file."""
        sound, broken = self.room / "sound", self.room / "broken"
        shutil.copytree(sound, broken, dirs_exist_ok=True)
        (broken / self._files()[data[0]].relative_to(sound)).write_bytes(data[1:])
        return broken

    def _files(self):
        return sorted(path for path in (self.room / "sound").rglob("*") if path.is_file())


class CheckpointFiles(Directory):
    """Checkpoints.restore: the values of the step that it returns."""

    STEPS = (10, 20)

    def __init__(self, room):
        super().__init__(room)
        self.state = {name: tf.Variable(tf.zeros([50])) for name in ("weights", "moments")}
        for step in self.STEPS:
            self._fill(step)
            self._checkpoints(room / "sound").save(step)

    def _checkpoints(self, where):
        return Checkpoints(str(where), tf.train.Checkpoint(**self.state))

    def _fill(self, value):
        for variable in self.state.values():
            variable.assign(tf.fill([50], float(value)))

    def check(self, data):
        self._fill(-1)
        return accepted(self._restore, self.broken(data))

    def _restore(self, broken):
        step = self._checkpoints(broken).restore()
        assert step in self.STEPS
        assert all(np.all(variable.numpy() == step) for variable in self.state.values()), (
            "wrong in silence"
        )


class RunFiles(Directory):
    """The run is opened, and its task is known."""

    def __init__(self, room):
        super().__init__(room)
        workdir = Workdir(self._config("sound"), "pretrain")
        workdir.begin(0)
        for step in range(1, 4):
            workdir.record(step, {"loss": 1.0 / step, "wall_seconds": float(step)})
        workdir.finish({"dataset": "photos/40", "encoder": "small", "step": 3, "loss": 1 / 3})
        shutil.rmtree(workdir.file("events"))  # which nobody reads

    def _config(self, name):
        return cli.parse(
            TASKS["pretrain"].config, [*samples.PRETRAIN, f"--workdir={self.room}/{name}"]
        )

    def check(self, data):
        self.broken(data)
        return all([accepted(read) for read in (self._open, self._tell)])

    def _open(self):
        workdir = Workdir(self._config("broken"), "pretrain")
        workdir.records()
        workdir.result()

    def _tell(self):
        read_config(str(self.room / "broken"), read_task(str(self.room / "broken")).config)


class Results(Directory):
    """There is a page, with one run less at most."""

    def __init__(self, room):
        super().__init__(room)
        results.all_kinds(room / "sound")
        runs, problems = collect(str(room / "sound"), REPORTS)
        self.counts = len(runs), len(problems)

    def check(self, data):
        runs, problems = collect(str(self.broken(data)), REPORTS)
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
    """load_feature_maps and load_patch_encoder: features of the promised shape."""

    def __init__(self, room):
        super().__init__(room)
        modules.write_module(room / "sound")

    def check(self, data):
        broken = str(self.broken(data))
        return all([accepted(read, broken) for read in (self._maps, self._latents)])

    @staticmethod
    def _maps(module):
        encoder = load_feature_maps(module, "feature_map", 16, backbone="tiny")
        assert encoder.identity
        assert encoder(tf.zeros([1, 16, 16, 3])).shape.rank == 4

    @staticmethod
    def _latents(module):
        encoder = load_patch_encoder(module, patch_size=8)
        assert encoder.identity
        assert encoder.patch_latents(tf.zeros([1, 2, 2, 8, 8, 3], tf.uint8)).shape[:3] == [1, 2, 2]
