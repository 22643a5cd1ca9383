"""Measures detection on as many images as VOC 2007 has: python -m benchmarks.voc [--images=N] [--
FLAG ...] > table.md

Draws a VOC 2007, writes it as TFDS does, and runs cpc_tf.detect on the records with the preset
voc/detect: from records to mAP. The data have VOC's layout, names, sizes and numbers; the pixels
are the embedded photographs. The network is tiny and learns for two steps, so that a CPU can do it;
flags after -- change that. Its mAP means nothing.
"""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Iterator
from unittest import mock

import numpy as np
from absl import app, flags
from PIL import Image, ImageDraw

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *(
        "diningtable",
        "dog",
        "horse",
        "motorbike",
        "person",
        "pottedplant",
        "sheep",
        "sofa",
        "train",
        "tvmonitor",
    ),
)
# (width, height), as often as each is here
SIZES = (
    (500, 375),
    (500, 375),
    (500, 333),
    (375, 500),
)
# What a CPU can do of the preset: its images, canvas and batch stay.
TINY = """--encoder=random --backbone=tiny --rpn_width=16 --rpn_train_candidates=200
    --rpn_train_proposals=50 --rpn_test_candidates=200 --rpn_test_proposals=50
    --region_samples=16 --region_pool=3 --region_head=mlp --region_blocks=1 --region_width=16
    --precision=float32 --train_steps=2 --warmup_steps=0 --frozen_epochs=0 --held_out=0""".split()
XML = """<annotation><folder>VOC2007</folder><filename>{name}.jpg</filename>
<size><width>{width}</width><height>{height}</height><depth>3</depth></size><segmented>0</segmented>
{objects}</annotation>
"""
OBJECT = (
    "<object><name>{}</name><pose>Unspecified</pose>"
    "<truncated>{}</truncated><difficult>{}</difficult>\n"
    "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>\n"
)


def main(argv) -> None:
    """Prints a table of the parts."""
    given = flags.FLAGS
    measure(pathlib.Path(given.folder), given.images, given.test_images, argv[1:])


def measure(folder: pathlib.Path, images: int, test_images: int, more: list[str]) -> dict:
    """Draws, writes, reads, trains and tests, and prints the seconds of each part; returns
    detection's result.
    """
    from cpc_tf.boxes import canvas
    from cpc_tf.core import cli
    from cpc_tf.detect import inputs, run
    from cpc_tf.detect.config import DetectConfig
    from cpc_tf.training import loop

    splits = {"train": images // 2, "val": images - images // 2, "test": test_images}
    place = [f"--data_dir={folder / 'tfds'}", f"--workdir={folder / 'detect'}"]
    config = cli.parse(DetectConfig, ["--preset=voc/detect", *place, *TINY, *more])
    print("| part | images | s |\n|---|---|---|")
    with _row("drawing", images + test_images):
        draw(folder, splits)
    with _row("writing records", images + test_images):
        write_records(folder)
    with _row("opening, and counting objects", images + test_images):
        source = inputs.open_data(config)[0]
    steps = -(-source.num_examples // config.training.batch_size)
    with _row("reading and augmenting", steps * config.training.batch_size):
        batches = canvas.batches(
            source, config.canvas, global_batch=config.training.batch_size, seed=0
        )
        for _ in batches.take(steps):
            pass
    start = time.monotonic()
    training = 0.0
    train = loop.train

    def timed(*args, **kwargs):
        nonlocal training
        begun = time.monotonic()
        outcome = train(*args, **kwargs)
        training += time.monotonic() - begun
        return outcome

    with mock.patch.object(loop, "train", timed):
        result = run.detect(config)
    print(f"| training | {result['steps'] * config.training.batch_size} | {training:.0f} |")
    rest = time.monotonic() - start - training
    print(
        f"| detecting, mAP and the rest of cpc_tf.detect | {test_images} | {rest:.0f} |", flush=True
    )
    return result


@contextlib.contextmanager
def _row(part: str, images: int) -> Iterator[None]:
    start = time.monotonic()
    yield
    print(f"| {part} | {images} | {time.monotonic() - start:.0f} |", flush=True)


def draw(folder: pathlib.Path, splits: dict[str, int]) -> None:
    """Writes FOLDER/VOCdevkit/VOC2007: JPEGImages, Annotations, ImageSets. The same seed gives the
    same images.
    """
    from cpc_tf.boxes import collages
    from cpc_tf.data import photos

    devkit = folder / "VOCdevkit" / "VOC2007"
    for name in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (devkit / name).mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    number = 0
    for split, count in splits.items():
        parts = dict(zip(photos.CLASSES, photos.regions("test" if split == "test" else "train")))
        grounds = [parts[name] for name in collages.BACKGROUNDS]
        things = [parts[name] for name in collages.CLASSES]
        names = [f"{number + i + 1:06}" for i in range(count)]
        (devkit / f"ImageSets/Main/{split}.txt").write_text("".join(f"{name}\n" for name in names))
        for first, name in enumerate(names, start=number):
            size = SIZES[random.integers(len(SIZES))]
            image = grounds[random.integers(len(grounds))].convert("RGB").resize(size)
            objects = _paste(image, things, first, random)
            image.save(devkit / f"JPEGImages/{name}.jpg", quality=90)
            text = XML.format(name=name, width=size[0], height=size[1], objects="".join(objects))
            (devkit / f"Annotations/{name}.xml").write_text(text)
        number += count
    train, val = (
        (devkit / f"ImageSets/Main/{split}.txt").read_text() for split in ("train", "val")
    )
    (devkit / "ImageSets/Main/trainval.txt").write_text(train + val)


def _paste(image, things, first, random) -> list[str]:
    """Pastes one to five objects and returns their XML; the classes come in turns, and the first is
    never difficult.

    A class is a photograph in a shape: the first ones are rectangles, the rest ellipses.
    """
    found = []
    for number in range(random.integers(1, 5, endpoint=True)):
        label = first % len(CLASSES) if number == 0 else random.integers(len(CLASSES))
        width, height = (int(side) for side in random.integers(30, np.array(image.size) * 2 // 3))
        left, top = (
            int(random.integers(most)) for most in (image.width - width, image.height - height)
        )
        shape = Image.new("L", (width, height), 255 if label < len(things) else 0)
        if label >= len(things):
            ImageDraw.Draw(shape).ellipse((0, 0, width - 1, height - 1), fill=255)
        image.paste(
            things[label % len(things)].convert("RGB").resize((width, height)), (left, top), shape
        )
        truncated = int(random.random() < 0.4)
        difficult = int(number > 0 and random.random() < 0.3)
        found.append(
            OBJECT.format(
                CLASSES[label], truncated, difficult, left + 1, top + 1, left + width, top + height
            )
        )
    return found


def write_records(folder: pathlib.Path) -> None:
    """Writes FOLDER/tfds/voc/2007 with TFDS' own builder, from FOLDER/VOCdevkit instead of the
    archives of VOC.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.object_detection import voc

    from cpc_tf.data import datasets

    archives = dict.fromkeys(("trainval", "test"), str(folder))
    extracted = mock.patch.object(
        tfds.download.DownloadManager, "download_and_extract", return_value=archives
    )
    with extracted, datasets.quiet():
        voc.Voc(config="2007", data_dir=str(folder / "tfds")).download_and_prepare()


if __name__ == "__main__":
    flags.DEFINE_integer(
        "images", 5011, "images to train on, half of them in 'train', half in 'val'"
    )
    flags.DEFINE_integer("test_images", 4952, "images to test on")
    flags.DEFINE_string("folder", "runs/data/voc_made_up", "where the data and the run are written")
    app.run(main)
