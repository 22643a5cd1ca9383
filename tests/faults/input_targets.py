"""What reads images, annotations, flags and cards that others wrote."""

from __future__ import annotations

import json
import math

import numpy as np
import tensorflow as tf
from PIL import Image

from cpc_tf import cli
from cpc_tf.data.decoding.decode import decode, image_size
from cpc_tf.data.sources import voc_xml
from cpc_tf.encoders.card import EncoderCard, read_card
from cpc_tf.settings import ConfigError, flatten, to_flagfile
from cpc_tf.tasks import TASKS
from tests import modules, samples
from tests.data.samples import encode
from tests.faults import mutate
from tests.faults.target import Target, refused


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
        self.decode = tf.function(
            lambda x: decode(x, 0, (1000.0, 2000.0)), input_signature=[tf.TensorSpec([], tf.string)]
        )
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
        sound = [path.read_bytes() for path in room.glob("Annotations/*.xml")]
        prefixed = sound[0].replace(b"</", b"</v:").replace(b"<", b"<v:").replace(b"<v:/v:", b"</v:")
        other = sound[0].replace(b"<annotation>", b"<annotation xmlns='http://host/voc'><filename>0.png</filename>")
        self.corpus = [*sound, prefixed, other.replace(b"<object>", b"<object><polygon><x1>1</x1></polygon>")]

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
