"""What is attacked: images, annotations, flags, cards and folders, as users give them."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil
from unittest import mock

import numpy as np
import tensorflow as tf
from PIL import Image

from cpc_tf.boxes import voc
from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import ConfigError, flatten, to_flagfile
from cpc_tf.data import check, classes, draws, splits, walk
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.decode import decode, image_size
from cpc_tf.encoders.card import EncoderCard, read_card
from tests import modules, samples
from tests.boxes.samples import open_voc_folder, open_voc_images
from tests.data.samples import encode, open_folder

LONGEST = 1000  # characters of a message
TOKENS = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\r\n",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"../",
        b"%s",
        b"&amp;",
        b"<!DOCTYPE a>",
        b"<",
    ),
    *(
        b"NaN",
        b"Infinity",
        b"-1",
        b"0",
        b"1e999",
        b"9" * 30,
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b'"',
        b"{",
        b"]",
    ),
)
# Values of flags at and beyond the ends of what numbers and texts can be.
VALUES = (
    *(
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e-320",
        "1e30",
        "1e38",
        "1e400",
        str(2**31),
        str(2**63),
        "9" * 23,
        "",
        " ",
    ),
    *(
        "\n",
        "\0",
        "\t",
        "\x1b[0m",
        "..",
        "/",
        "a" * 5000,
        "[x]",
        "*",
        "?",
        "\\",
        "=1",
        "é",
        "\udc80",
        "none",
    ),
)


def damaged(random: np.random.Generator, corpus: list[bytes]) -> bytes:
    """One of some files with one to four mutations: bits, spans, tokens, its end, a part of another
    file.
    """
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
        self.corpus += [
            encode(pixels, kind, exif=turned) for kind in ("JPEG", "PNG", "WEBP", "TIFF")
        ]
        deep = 256 * grey.astype(np.uint16) + grey.T.ravel().reshape(grey.shape)
        self.corpus += [
            encode(deep, "PNG"),
            encode(deep, "TIFF"),
            encode(deep, "TIFF", compression="tiff_lzw"),
        ]
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
    """voc.parse: an Annotation, or ValueError."""

    def __init__(self, room):
        super().__init__(room)
        samples.write_boxes(room)
        sound = [path.read_bytes() for path in sorted(room.glob("Annotations/*.xml"))]
        prefixed = (
            sound[0].replace(b"</", b"</v:").replace(b"<", b"<v:").replace(b"<v:/v:", b"</v:")
        )
        other = sound[0].replace(
            b"<annotation>", b"<annotation xmlns='http://host/voc'><filename>0.png</filename>"
        )
        self.corpus = [
            *sound,
            prefixed,
            other.replace(b"<object>", b"<object><polygon><x1>1</x1></polygon>"),
        ]

    def check(self, data):
        try:
            found = voc.parse(data)
        except ValueError:
            return False
        assert len(found.names) == len(found.boxes) == len(found.difficult)
        assert all(isinstance(x, float) for box in (*found.boxes, found.size) for x in box)
        return True


class Tables(Target):
    """Tables of labels: images with their classes, groups and a test, or a refusal."""

    def __init__(self, room):
        super().__init__(room)
        texts = [
            *(
                "file,label\n0.png,cat\n1.png,dog\n2.PNG,cat;dog\n3,no class\n4.png,\n5.png,nan\n",
                "0.png,0\n1.png,0.0\n",
            ),
            (
                'image_id\tgroup\ttags\n0.png\tp1\t["a",'
                " \"b\"]\n1.png\tp1\t['a']\n2.png\tp2\tb\n3.png\t\tb\n"
            ),
            'what;kind\n0.png;a|b\n1.png;"a, b"\n2.png;a\n3.png;b\n4.png;{"choices":["a"]}\n',
            "\ufeff0.png,cat\r\n./1.png,cat\r\n\\x\\2.png,dog\r\n3.png,dog\r\n",
        ]
        self.corpus = [text.encode() for text in texts]
        for i in range(6):
            (room / "x").mkdir(exist_ok=True)
            # copies, too; no image is decoded here
            (room / f"x/{i}.png").write_bytes(b"0" * (i // 2))

    def check(self, data):
        (self.room / "labels.csv").write_bytes(data)
        return any([accepted(self._read, rule) for rule in ("ask", "left_out")])

    def _read(self, rule):
        own = {
            "labelled": f"{self.room}/x",
            "labels": f"{self.room}/labels.csv",
            "data_dir": f"{self.room}/cache",
        }
        found = splits.read(PicturesConfig(ambiguous_folders=rule, **own))
        assert not {*found.splits["train"]} & {*found.splits.get("test", ())}
        together = draws.groups_of(found, range(len(found.names)))
        sides = {
            (together[row], split)
            for split, own in found.splits.items()
            for row in own
            if row in together
        }
        assert len({first for first, _ in sides}) == len(sides), "a group on both sides"
        classes.find_classes(found, [*found.splits], rule)


class Flags(Target):
    """cli.parse: settings that run.flags repeats. From the command line, and from a file of
    flags.
    """

    def __init__(self, room):
        super().__init__(room)
        self.names = {
            name: sorted(flatten(cli.parse(task.config, []))) for name, task in TASKS.items()
        }
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
        assert cli.parse(config_class, to_flagfile(config).splitlines()) == config
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
    *(
        "train",
        "val",
        "test",
        "valid",
        "Test",
        "a",
        "b.jpg",
        "c.png",
        "d.xml",
        "b.xml",
        "train.txt",
        "trainval.txt",
    ),
    *("JPEGImages", "Annotations", "ImageSets", "Main", "images", "labels", "SegmentationClass"),
)
ODD = (
    "nameless",
    "d.JPG_large",
    "caf\udce9.jpg",
    "\udcff",
    "x\ny.png",
    " ",
    "é.gif",
    "train.txt",
    ".hidden",
    "*[?].bmp",
    "__MACOSX",
    "0.xml",
)
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

    A case is the seed of a tree with images, damaged ones, annotations, links, pipes, and names of
    all kinds.
    """

    def __init__(self, room):
        super().__init__(room)
        pixels = np.random.default_rng(0).integers(0, 256, [24, 17, 3], dtype=np.uint8)
        samples.write_boxes(room / "sound")
        self.images = [encode(pixels, kind) for kind in ("PNG", "JPEG", "BMP", "GIF")]
        self.texts = [
            *(path.read_bytes() for path in sorted((room / "sound").glob("Annotations/*"))),
            *LISTS,
        ]

    def case(self, random):
        return random.bytes(8)

    def check(self, data):
        random, root, cache = (
            np.random.default_rng([*data]),
            self.room / "tree",
            self.room / "cache",
        )
        if random.integers(2):
            for place, kind in zip(
                LAYOUTS[random.integers(len(LAYOUTS))], ("JPEGImages", "Annotations")
            ):
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

        folders = sorted(
            path for path in (root, *root.rglob("*")) if path.is_dir() and not path.is_symlink()
        )
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
        real = sum(path.suffix.lower() in ("", *walk.EXTENSIONS) for path in root.rglob("*"))
        assert source.num_examples <= real, "images are multiplied"
