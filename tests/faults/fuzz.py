"""Attacks what reads files and flags with damaged ones, in this process.

    python -m tests.faults.fuzz --minutes=10 --seed=0
    python -m tests.faults.fuzz --seed=0 --target=images --case=17

A case is a function of seed, target and number; one that breaks a promise is written to `--output`, with its traceback.
A target is a class with `case(random)`, which makes an input, and `check(data)`: whether it was accepted, or refused by
a ConfigError of one line. Whatever else happens breaks the promise.
"""

from __future__ import annotations

import collections
import json
import math
import os
import pathlib
import shutil
import tempfile
import time
import traceback
from typing import NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf
from absl import app, flags, logging
from PIL import Image

from cpc_tf import cli
from cpc_tf.data.decoding.decode import decode, image_size
from cpc_tf.data.sources import check, tree, voc_xml
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
from tests.data.samples import encode, open_folder, open_voc_folder, open_voc_images
from tests.results import samples as results

FLAGS = flags.FLAGS
LONGEST = 1000  # characters of a message
TOKENS = (
    *(b"", b"\0", b"\xff", b"\r\n", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"../", b"%s", b"&amp;", b"<!DOCTYPE a>", b"<"),
    *(b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 30, b"null", b"true", b"{}", b"[]", b'""', b'"', b"{", b"]"),
)
# Values of flags at and beyond the ends of what numbers and texts can be.
VALUES = (
    *("nan", "inf", "-inf", "-1", "0", "1e-320", "1e30", "1e38", "1e400", str(2**31), str(2**63), "9" * 23, "", " "),
    *("\n", "\0", "\t", "\x1b[0m", "..", "/", "a" * 5000, "[x]", "*", "?", "\\", "=1", "é", "\udc80", "none"),
)


def damaged(random: np.random.Generator, corpus: list[bytes]) -> bytes:
    """One of some files with one to four mutations: bits, spans, tokens, its end, a part of another file."""
    data = bytearray(corpus[random.integers(len(corpus))])
    for _ in range(random.integers(1, 5)):
        start = int(random.integers(len(data) + 1))
        span = slice(start, start + int(random.integers(1, 64)))
        kind = random.integers(7)
        if kind == 0 and start < len(data):
            data[start] ^= 1 << int(random.integers(8))
        elif kind == 1:
            del data[span]
        elif kind == 2:
            data[start:start] = data[span]
        elif kind == 3:
            data[start:start] = TOKENS[random.integers(len(TOKENS))]
        elif kind == 4:
            del data[start:]
        elif kind == 5:
            data[span] = random.bytes(len(data[span]))
        else:
            other = corpus[random.integers(len(corpus))]
            data[start:] = other[int(random.integers(len(other) + 1)) :]
    return bytes(data)


def accepted(read, *args) -> bool:
    """Whether `read` accepts its arguments; False if it refuses them in one readable line."""
    try:
        read(*args)
    except ConfigError as error:
        text = str(error)
        assert "\n" not in text, "a refusal of several lines"
        assert len(text) <= LONGEST, f"a refusal of {len(text)} characters"
        assert not any(ord(letter) < 32 for letter in text), "a refusal with control characters"
        return False
    return True


class Target:
    """Something to attack by damaged files of a corpus.

    Args:
      room: an empty folder of its own.
    """

    def __init__(self, room: pathlib.Path):
        self.room, self.corpus = room, []

    def case(self, random: np.random.Generator) -> bytes:
        return damaged(random, self.corpus)


class Images(Target):
    """decode: pixels, or InvalidArgumentError."""

    def __init__(self, room):
        super().__init__(room)
        pixels = np.random.default_rng(0).integers(0, 256, [24, 17, 3], dtype=np.uint8)
        grey = pixels[..., 0]
        kinds = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
        self.corpus = [encode(x, kind) for x in (pixels, grey) for kind in kinds]
        turned = Image.Exif()
        turned[0x0112] = 6
        self.corpus += [encode(pixels, kind, exif=turned) for kind in ("JPEG", "PNG", "WEBP", "TIFF")]
        deep = 256 * grey.astype(np.uint16) + grey.T.ravel().reshape(grey.shape)
        self.corpus += [encode(deep, "PNG"), encode(deep, "TIFF"), encode(deep, "TIFF", compression="tiff_lzw")]
        text = [tf.TensorSpec([], tf.string)]
        self.decode = tf.function(lambda x: decode(x, 0, (1000.0, 2000.0)), input_signature=text)
        self.size = tf.function(image_size, input_signature=text)

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
        sound = [path.read_bytes() for path in sorted(room.glob("Annotations/*.xml"))]
        prefixed = sound[0].replace(b"</", b"</v:").replace(b"<", b"<v:").replace(b"<v:/v:", b"</v:")
        other = sound[0].replace(b"<annotation>", b"<annotation xmlns='http://host/voc'><filename>0.png</filename>")
        self.corpus = [*sound, prefixed, other.replace(b"<object>", b"<object><polygon><x1>1</x1></polygon>")]

    def check(self, data):
        try:
            found = voc_xml.parse(data)
        except ValueError:
            return False
        assert len(found.names) == len(found.boxes) == len(found.difficult)
        assert all(isinstance(x, float) for box in (*found.boxes, found.size) for x in box)
        return True


class Flags(Target):
    """cli.parse: settings that run.flags repeats. From the command line, and from a file of flags."""

    def __init__(self, room):
        super().__init__(room)
        self.names = {name: sorted(flatten(cli.parse(task.config, []))) for name, task in TASKS.items()}
        self.corpus = [f"--flagfile={room}/x.flags\n".encode()]
        self.corpus += [to_flagfile(task.config()).encode() for task in TASKS.values()]

    def case(self, random):
        task = [*TASKS][random.integers(len(TASKS))]
        if random.integers(4) == 0:
            return b"FILE " + super().case(random)
        names = random.choice(self.names[task], size=random.integers(1, 4))
        lines = [task, *(f"--{name}={VALUES[random.integers(len(VALUES))]}" for name in names)]
        return "\n".join(lines).encode("utf-8", "surrogateescape")

    def check(self, data):
        if data.startswith(b"FILE "):
            (self.room / "x.flags").write_bytes(data[len(b"FILE ") :])
            file = [f"--flagfile={self.room}/x.flags"]
            return any([accepted(self._parse, task.config, file) for task in TASKS.values()])
        task, *given = data.decode("utf-8", "surrogateescape").split("\n--")
        return accepted(self._parse, TASKS[task].config, [f"--{flag}" for flag in given])

    @staticmethod
    def _parse(config_class, given):
        config = cli.parse(config_class, given)
        assert cli.parse(config_class, to_flagfile(config).splitlines(), recorded=True) == config
        for name, value in flatten(config).items():
            assert not isinstance(value, float) or math.isfinite(value), name


class Cards(Target):
    """read_card: an EncoderCard that can be written again."""

    def __init__(self, room):
        super().__init__(room)
        modules.write_card(room, modules.EncoderConfig(encoder="tiny"))
        self.corpus = [(room / "encoder.json").read_bytes()]

    def check(self, data):
        (self.room / "encoder.json").write_bytes(data)
        return accepted(self._read)

    def _read(self):
        card = read_card(str(self.room))
        assert EncoderCard.from_json(json.loads(json.dumps(card.to_json()))) == card


NAMES = (
    *("train", "val", "test", "valid", "Test", "a", "b.jpg", "c.png", "d.xml", "b.xml", "train.txt", "trainval.txt"),
    *("JPEGImages", "Annotations", "ImageSets", "Main", "images", "labels", "SegmentationClass"),
)
ODD = ("caf\udce9.jpg", "\udcff", "x\ny.png", " ", "é.gif", "train.txt", ".hidden", "*[?].bmp", "__MACOSX", "0.xml")
# Places of images and of their annotations, of sound folders.
LAYOUTS = (
    *(("JPEGImages", "Annotations"), ("images", "annotations/xmls"), ("train", "train")),
    *(("train/images", "train/labels"), (".", ".")),
)
LISTS = (
    b"0\n1\n",
    b"JPEGImages/0.png\r\n./1.png 1\r\nc:\\a\\d.jpg 1,2,3\r\n",
    b"\xef\xbb\xbf/x/images/0.png labels/0.xml\n",
)


class Folders(Target):
    """folder:PATH and voc:PATH: sources that can be read whole.

    A case is the seed of a tree with images, damaged ones, annotations, links, pipes, and names of all kinds.
    """

    def __init__(self, room):
        super().__init__(room)
        pixels = np.random.default_rng(0).integers(0, 256, [24, 17, 3], dtype=np.uint8)
        samples.write_boxes(room / "sound")
        self.images = [encode(pixels, kind) for kind in ("PNG", "JPEG", "BMP", "GIF")]
        self.texts = [*(path.read_bytes() for path in sorted((room / "sound").glob("Annotations/*"))), *LISTS]

    def case(self, random):
        return random.bytes(8)

    def check(self, data):
        random, root, cache = np.random.default_rng([*data]), self.room / "tree", self.room / "cache"
        if random.integers(2):
            for place, kind in zip(LAYOUTS[random.integers(len(LAYOUTS))], ("JPEGImages", "Annotations")):
                shutil.copytree(self.room / "sound" / kind, root / place, dirs_exist_ok=True)
        else:
            root.mkdir()
        try:
            for _ in range(random.integers(1, 25)):
                self._grow(root, random)
            # Most of a tree is damaged; what is left shall be read nevertheless.
            with mock.patch.object(check, "_MOST_LEFT_OUT", 0.99):
                opens = open_folder, open_voc_folder, open_voc_images
                return any([accepted(self._read, each, root, cache) for each in opens])
        finally:
            shutil.rmtree(root)
            shutil.rmtree(cache, ignore_errors=True)

    def _grow(self, root, random):
        """Puts something somewhere, unless something is there."""

        def one_of(things):
            return things[random.integers(len(things))]

        folders = sorted(path for path in (root, *root.rglob("*")) if path.is_dir() and not path.is_symlink())
        path, kind = one_of(folders) / one_of((*NAMES, *NAMES, *ODD)), random.integers(8)
        if os.path.lexists(path):
            return
        if kind < 3:
            path.mkdir()
        elif kind == 3:
            path.write_bytes(one_of(self.images))
        elif kind == 4:
            path.write_bytes(damaged(random, self.images + self.texts))
        elif kind == 5:
            path.write_bytes(one_of(self.texts))
        elif kind == 6:
            path.symlink_to(one_of(folders) if random.integers(3) else path.name)
        else:
            os.mkfifo(path)

    @staticmethod
    def _read(open_it, root, cache):
        source = open_it(root, "train", cache)
        assert len([*source.ordered()]) == source.num_examples
        real = sum(path.suffix.lower() in tree.EXTENSIONS for path in root.rglob("*"))
        assert source.num_examples <= real, "images are multiplied"


class Directory(Target):
    """A directory of which a file is damaged. A case is the number of a file in ROOM/sound and its damaged content."""

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
        assert all(np.all(variable.numpy() == step) for variable in self.state.values()), "wrong in silence"


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
        return cli.parse(TASKS["pretrain"].config, [*samples.PRETRAIN, f"--workdir={self.room}/{name}"])

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


TARGETS = {
    **{"images": Images, "annotations": Annotations, "flags": Flags, "checkpoints": CheckpointFiles, "cards": Cards},
    **{"runs": RunFiles, "results": Results, "modules": Modules, "folders": Folders},
}


class Broken(NamedTuple):
    """A case that was neither accepted nor refused as promised."""

    target: str
    number: int
    data: bytes
    trace: str


class Attack:
    """Cases of some targets in their order; counts what became of them: {target: cases}."""

    def __init__(self, room: pathlib.Path, seed: int, names=tuple(TARGETS)):
        self._seed, self._targets = seed, {}
        self.seconds = dict.fromkeys(names, 0.0)
        self.accepted, self.refused, self.broken = collections.Counter(), collections.Counter(), []
        for name in names:
            (room / name).mkdir()
            self._targets[name] = TARGETS[name](room / name)

    def data(self, name: str, number: int) -> bytes:
        """The input of a case."""
        return self._targets[name].case(np.random.default_rng([self._seed, [*TARGETS].index(name), number]))

    def one(self, name: str, number: int) -> None:
        """Tries a case."""
        start, data = time.monotonic(), self.data(name, number)
        try:
            (self.accepted if self._targets[name].check(data) else self.refused)[name] += 1
        except Exception:  # whatever it is: that is what we look for
            self.broken.append(Broken(name, number, data, traceback.format_exc()))
        self.seconds[name] += time.monotonic() - start

    def next(self) -> None:
        """Tries the next case of the target that had the least time."""
        name = min(self.seconds, key=self.seconds.get)
        self.one(name, self.tried(name))

    def tried(self, name: str) -> int:
        """Cases so far."""
        return self.accepted[name] + self.refused[name] + sum(each.target == name for each in self.broken)

    def table(self) -> str:
        """What became of them, a line a target."""
        lines = [f"{'target':14}{'cases':>9}{'accepted':>10}{'refused':>10}{'broken':>8}"]
        for name in self.seconds:
            broken = sum(each.target == name for each in self.broken)
            figures = f"{self.tried(name):9,}{self.accepted[name]:10,}{self.refused[name]:10,}{broken:8,}"
            lines.append(f"{name:14}{figures}")
        return "\n".join(lines)


def main(argv) -> None:
    """Attacks for `--minutes`, or tries one case."""
    logging.set_verbosity(logging.ERROR)
    names = [FLAGS.target] if FLAGS.target else [*TARGETS]
    with tempfile.TemporaryDirectory() as room:
        attack = Attack(pathlib.Path(room), FLAGS.seed, names)
        if FLAGS.case is not None:
            attack.one(names[0], FLAGS.case)
        shown = time.monotonic()
        end = shown + 60 * FLAGS.minutes
        while FLAGS.case is None and (now := time.monotonic()) < end:
            attack.next()
            if now - shown > 30:
                shown, cases = now, sum(map(attack.tried, names))
                print(f"{cases:,} cases, {len(attack.broken)} broken, {(end - now) / 60:.0f} min left", flush=True)
    for each in attack.broken:
        path = pathlib.Path(FLAGS.output, f"{each.target}-{FLAGS.seed}-{each.number}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(each.data)
        path.with_suffix(".txt").write_text(each.trace)
        print(f"{path}: {each.trace.strip().splitlines()[-1][:200]}")
    print(attack.table())
    raise SystemExit(bool(attack.broken))


if __name__ == "__main__":
    flags.DEFINE_float("minutes", 10, "how long")
    flags.DEFINE_integer("seed", 0, "of all cases")
    flags.DEFINE_enum("target", None, [*TARGETS], "only this one")
    flags.DEFINE_integer("case", None, "only this case of --target")
    flags.DEFINE_string("output", "runs/faults", "where cases that break a promise are written")
    app.run(main)
