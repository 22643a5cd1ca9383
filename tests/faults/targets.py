"""What reads files and flags that others wrote, and what each promises to do with damaged ones."""

from __future__ import annotations

import json
import math
import shutil
from unittest import mock

import numpy as np
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.data import voc_xml
from cpc_tf.data.decode import decode, image_size
from cpc_tf.encoders.card import EncoderCard, read_card
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.report.page import files
from cpc_tf.results import plots
from cpc_tf.results.runs import collect
from cpc_tf.settings import ConfigError, flatten, to_flagfile
from cpc_tf.tasks import TASKS, read_task
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import Workdir, read_config
from tests import modules, samples
from tests.data.samples import encode
from tests.faults import mutate
from tests.faults.folder_target import Folders
from tests.faults.target import Target, refused
from tests.results import samples as results


class Images(Target):
    """decode: pixels, or InvalidArgumentError."""

    def __init__(self, room):
        super().__init__(room)
        pixels = np.random.default_rng(0).integers(0, 256, [24, 17, 3], dtype=np.uint8)
        grey = pixels[..., 0]
        self.corpus = [encode(x, kind) for x in (pixels, grey) for kind in ("PNG", "JPEG", "BMP", "GIF")]
        self.decode = tf.function(decode, input_signature=[tf.TensorSpec([], tf.string)])
        self.size = tf.function(image_size, input_signature=[tf.TensorSpec([], tf.string)])

    def case(self, random):
        return mutate.damaged(random, self.corpus)

    def check(self, data):
        try:
            pixels = self.decode(data)
        except tf.errors.InvalidArgumentError:
            return False
        assert pixels.shape[2] == 3
        assert tuple(self.size(data).numpy()) == pixels.shape[:2]
        return True


class Annotations(Target):
    """voc_xml.parse: an Annotation, or ValueError."""

    def __init__(self, room):
        super().__init__(room)
        samples.write_boxes(room)
        self.corpus = [path.read_bytes() for path in room.glob("Annotations/*.xml")]

    def case(self, random):
        return mutate.damaged(random, self.corpus)

    def check(self, data):
        try:
            found = voc_xml.parse(data)
        except ValueError:
            return False
        assert len(found.names) == len(found.boxes) == len(found.difficult)
        assert all(isinstance(x, float) for box in (*found.boxes, found.size) for x in box)
        return True


class Flags(Target):
    """cli.parse: settings that run.flags repeats, or ConfigError. From the command line, and from a file of flags."""

    def __init__(self, room):
        super().__init__(room)
        self.names = {name: sorted(flatten(cli.parse(task.config, []))) for name, task in TASKS.items()}
        self.files = [f"--flagfile={room}/x.flags\n".encode()]
        self.files += [to_flagfile(task.config()).encode() for task in TASKS.values()]

    def case(self, random):
        task = [*TASKS][random.integers(len(TASKS))]
        if random.integers(4) == 0:
            return b"FILE " + mutate.damaged(random, self.files)
        return "\n".join([task, *mutate.flag_values(random, self.names[task])]).encode("utf-8", "surrogateescape")

    def check(self, data):
        if data.startswith(b"FILE "):
            (self.room / "x.flags").write_bytes(data[len(b"FILE ") :])
            return any([self._accepted(task.config, [f"--flagfile={self.room}/x.flags"]) for task in TASKS.values()])
        task, *flags = data.decode("utf-8", "surrogateescape").split("\n--")
        return self._accepted(TASKS[task].config, [f"--{flag}" for flag in flags])

    def _accepted(self, config_class, flags):
        try:
            config = cli.parse(config_class, flags)
        except ConfigError as error:
            return refused(error)
        assert cli.parse(config_class, to_flagfile(config).splitlines(), recorded=True) == config
        for name, value in flatten(config).items():
            assert not isinstance(value, float) or math.isfinite(value), name
        return True


class CheckpointFiles(Target):
    """Checkpoints.restore: the values of the step that it returns, or ConfigError."""

    STEPS = (10, 20)

    def __init__(self, room):
        super().__init__(room)
        self.state = {name: tf.Variable(tf.zeros([50])) for name in ("weights", "moments")}
        for step in self.STEPS:
            self._fill(step)
            self._checkpoints(room / "sound").save(step)
        self.files = sorted((room / "sound/checkpoints").iterdir())

    def _checkpoints(self, where):
        return Checkpoints(str(where), tf.train.Checkpoint(**self.state))

    def _fill(self, value):
        for variable in self.state.values():
            variable.assign(tf.fill([50], float(value)))

    def case(self, random):
        chosen = int(random.integers(len(self.files)))
        return bytes([chosen]) + mutate.damaged(random, [self.files[chosen].read_bytes()])

    def check(self, data):
        broken = self.room / "broken"
        shutil.copytree(self.room / "sound", broken, dirs_exist_ok=True)
        (broken / "checkpoints" / self.files[data[0]].name).write_bytes(data[1:])
        self._fill(-1)
        try:
            step = self._checkpoints(broken).restore()
        except ConfigError as error:
            return refused(error)
        assert step in self.STEPS
        assert all(np.all(variable.numpy() == step) for variable in self.state.values()), "wrong in silence"
        return True


class Cards(Target):
    """read_card: an EncoderCard that can be written again, or ConfigError."""

    def __init__(self, room):
        super().__init__(room)
        modules.write_card(room, modules.EncoderConfig(encoder="tiny"))
        self.corpus = [(room / "encoder.json").read_bytes()]

    def case(self, random):
        return mutate.damaged(random, self.corpus)

    def check(self, data):
        (self.room / "encoder.json").write_bytes(data)
        try:
            card = read_card(str(self.room))
        except ConfigError as error:
            return refused(error)
        assert EncoderCard.from_json(json.loads(json.dumps(card.to_json()))) == card
        return True


class RunFiles(Target):
    """A file of a run's directory is damaged: the run is opened, or refused by a ConfigError."""

    def __init__(self, room):
        super().__init__(room)
        self.run = room / "run"
        self.config = cli.parse(TASKS["pretrain"].config, [*samples.PRETRAIN, f"--workdir={self.run}"])
        workdir = Workdir(self.config, "pretrain")
        workdir.begin(0)
        for step in range(1, 4):
            workdir.record(step, {"loss": 1.0 / step, "wall_seconds": float(step)})
        workdir.finish({"dataset": "photos/40", "encoder": "small", "step": 3, "loss": 1 / 3})
        names = ("run.flags", "run.json", "metrics.jsonl", "result.json")
        self.sound = [(name, (self.run / name).read_bytes()) for name in names]

    def case(self, random):
        chosen = int(random.integers(len(self.sound)))
        return bytes([chosen]) + mutate.damaged(random, [self.sound[chosen][1]])

    def check(self, data):
        for name, content in self.sound:
            (self.run / name).write_bytes(content)
        (self.run / self.sound[data[0]][0]).write_bytes(data[1:])
        return all([self._accepted(read) for read in (self._open, self._tell)])

    def _accepted(self, read):
        try:
            read()
        except ConfigError as error:
            return refused(error)
        return True

    def _open(self):
        workdir = Workdir(self.config, "pretrain")
        workdir.records()
        workdir.result()

    def _tell(self):
        task = read_task(str(self.run))
        read_config(str(self.run), task.config)


class Results(Target):
    """A file that the report reads is damaged: there is a page, with one run less at most."""

    def __init__(self, room):
        super().__init__(room)
        results.all_kinds(room)
        self.files = sorted(path for path in room.rglob("*") if path.is_file())
        self.sound = {path: path.read_bytes() for path in self.files}
        runs, problems = collect(str(room), TASKS)
        self.counts = len(runs), len(problems)

    def case(self, random):
        chosen = int(random.integers(len(self.files)))
        return bytes([chosen]) + mutate.damaged(random, [self.sound[self.files[chosen]]])

    def check(self, data):
        path = self.files[data[0]]
        path.write_bytes(data[1:])
        try:
            runs, problems = collect(str(self.room), TASKS)
            with mock.patch.object(plots, "png", return_value=b"png"):
                made = files(runs, problems, "runs")
        finally:
            path.write_bytes(self.sound[path])
        for content in made.values():
            assert isinstance(content, bytes) or content.encode()
        json.loads(made["report.json"], parse_constant=self._not_strict)
        assert len(runs) >= self.counts[0] - 1
        return len(problems) == self.counts[1]

    @staticmethod
    def _not_strict(constant):
        raise AssertionError(f"{constant} in report.json")


class Modules(Target):
    """load_feature_maps and load_patch_encoder: features of the promised shape, or ConfigError."""

    def __init__(self, room):
        super().__init__(room)
        modules.write_module(room / "sound")
        self.files = sorted(path for path in (room / "sound").rglob("*") if path.is_file())

    def case(self, random):
        chosen = int(random.integers(len(self.files)))
        return bytes([chosen]) + mutate.damaged(random, [self.files[chosen].read_bytes()])

    def check(self, data):
        broken = self.room / "broken"
        shutil.copytree(self.room / "sound", broken, dirs_exist_ok=True)
        (broken / self.files[data[0]].relative_to(self.room / "sound")).write_bytes(data[1:])
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


TARGETS = {
    "images": Images,
    "annotations": Annotations,
    "flags": Flags,
    "checkpoints": CheckpointFiles,
    "cards": Cards,
    "runs": RunFiles,
    "results": Results,
    "modules": Modules,
    "folders": Folders,
}
