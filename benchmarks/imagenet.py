"""Measures the start of each task on a million records: python -m benchmarks.imagenet [--records=N]
> table.md

Writes an `imagenet2012` as TensorFlow Datasets lays it out, with as many records, files and classes
as the real one, and a `voc/2007` likewise. The images are a few photographs: of ImageNet's 64 x 64
px, of VOC's 500 x 375 px. Then each task is started in a process of its own, with a tiny network,
and ended after its first step.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from absl import app, flags

_PRETRAIN = """pretrain --preset=imagenet/pretrain_resnet50 --resize=75 --image_size=65
    --patch_size=20 --patch_stride=9 --encoder=tiny --context_blocks=1 --context_dim=8
    --batch_size=64 --precision=float32 --train_steps=2 --steps_per_loop=1"""
_EFFICIENT = """efficient --preset=imagenet/efficient --resize=72 --image_size=64
    --encoder=random --backbone=tiny --head_blocks=1 --head_width=16 --search_trials=1
    --batch_size=64 --train_steps=2 --finetune_steps=2 --steps_per_loop=1 --precision=float32
    --label_fraction="""
_DETECT = """detect --preset=voc/detect --encoder=random --backbone=tiny --rpn_width=16
    --rpn_train_candidates=200 --rpn_train_proposals=50 --rpn_test_candidates=200
    --rpn_test_proposals=50 --region_samples=16 --region_pool=3 --region_head=mlp
    --region_blocks=1 --region_width=16 --precision=float32 --train_steps=2 --steps_per_loop=1
    --warmup_steps=0 --frozen_epochs=0 --held_out=0"""
STARTS = {
    "pre-training": _PRETRAIN,
    "efficient, 1 %": f"{_EFFICIENT}0.01",
    "efficient, 10 %": f"{_EFFICIENT}0.1",
    "efficient, 100 %": f"{_EFFICIENT}1",
    "detection": _DETECT,
}
IMAGENET = "imagenet2012:5.1.0"


def main(argv) -> None:
    """Prints a table with a row for each start."""
    given = flags.FLAGS
    more = argv[1:]
    folder = pathlib.Path(given.folder)
    if given.measure:
        start(folder, given.measure, more, given.began, given.whole)
        return
    if folder.exists():
        raise SystemExit(
            f"--folder={folder}: exists; name a new folder, since it is deleted at the end"
        )
    began = time.monotonic()
    write(folder, given.records, given.test_records, given.files, given.voc, given.side)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(
        f"{given.records} records, {size / 1e9:.1f} GB, written in"
        f" {time.monotonic() - began:.0f} s\n"
    )
    print(
        "| start | s to the first step | CPU s | peak memory, GB | read, GB"
        " |\n|---|---|---|---|---|"
    )
    for name in given.only or STARTS:
        print(row(name, measured(folder, name, more, given.whole)), flush=True)
    if not given.keep:
        shutil.rmtree(folder)


def row(name: str, found: dict[str, float]) -> str:
    """Returns the line of a start."""
    return (
        f"| {name} | {found['seconds']:.0f} | {found['cpu']:.0f} | {found['peak']:.2f} |"
        f" {found['read']:.2f} |"
    )


def measured(
    folder: pathlib.Path, name: str, more: Sequence[str], whole: bool = False
) -> dict[str, float]:
    """Returns what a fresh process measures: seconds by the wall clock and of CPUs, GB of memory
    and of files.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks.imagenet",
        f"--folder={folder}",
        f"--measure={name}",
    ]
    command += [f"--began={time.time()}", f"--whole={whole}", "--", *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def start(folder: pathlib.Path, name: str, more: Sequence[str], began: float, whole: bool) -> None:
    """Starts a task, prints its log and at last what it took until its first step, or as a whole.

    `began`: time at which this process was started.
    """
    from cpc_tf.core import cli
    from cpc_tf.core.commands import TASKS
    from cpc_tf.training import loop

    task, *words = STARTS[name].split()
    dataset = [] if task == "detect" else [f"--dataset={IMAGENET}"]
    workdir = folder / "runs" / name.replace(" ", "_")
    shutil.rmtree(workdir, ignore_errors=True)
    words += [*dataset, f"--data_dir={folder}", f"--workdir={workdir}", *more]
    found: dict[str, float] = {}

    class Progress(loop.Progress):
        """Tells when the first step of a training has ended."""

        def update(self, step):
            super().update(step)
            if not found:
                found.update(seconds=time.time() - began, cpu=time.process_time(), **_used())
            if not whole:
                _end(found)

    loop.Progress = Progress
    TASKS[task](cli.parse(TASKS[task].config, words))
    _end({**found, **_used()})


def _used() -> dict[str, float]:
    from cpc_tf.core.files import bytes_read

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"peak": peak / 1e9, "read": (bytes_read() or 0) / 1e9}


def _end(found: dict[str, float]) -> None:
    print(json.dumps(found), flush=True)
    os._exit(0)  # without waiting for what is read ahead


def write(
    folder: pathlib.Path, records: int, test_records: int, files: int, voc: int, side: int = 64
) -> None:
    """Writes imagenet2012 and voc/2007 of these sizes."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.object_detection import voc as voc_builder

    from cpc_tf.data import datasets

    with datasets.quiet():
        imagenet = tfds.builder(IMAGENET, data_dir=folder)
        objects = voc_builder.Voc(config="2007", data_dir=str(folder))
    classes = imagenet.info.features["label"].num_classes
    few = [
        _example(imagenet.info.features, photo, side, label) for photo, label in _photos(classes)
    ]
    _store(
        imagenet, {"train": (records, files), "validation": (test_records, max(1, files // 8))}, few
    )
    some = [_scene(objects.info.features, photo, label) for photo, label in _photos(20)]
    _store(
        objects,
        {"train": (voc // 2, 2), "validation": (voc - voc // 2, 2), "test": (voc - voc // 84, 4)},
        some,
    )


def _photos(classes: int) -> Iterator[tuple]:
    """Yields a photograph for each class; their number is small, so that they come again and
    again.
    """
    from cpc_tf.data import photos

    regions = photos.regions("train")
    for label in range(classes):
        yield regions[label % len(regions)].convert("RGB"), label


def _example(features, photo, side: int, label: int) -> bytes:
    import numpy as np

    image = np.asarray(photo.resize((side, side)))
    return features.serialize_example(
        {"image": image, "label": label, "file_name": f"{label:04}.JPEG"}
    )


def _scene(features, photo, label: int) -> bytes:
    import numpy as np
    import tensorflow_datasets as tfds

    box = tfds.features.BBox(0.1, 0.1, 0.7, 0.8)
    seen = {"label": label, "bbox": box, "pose": 0, "is_truncated": False, "is_difficult": False}
    names = {"labels": [label], "labels_no_difficult": [label], "image/filename": f"{label:06}.jpg"}
    return features.serialize_example(
        {"image": np.asarray(photo.resize((500, 375))), "objects": [seen], **names}
    )


def _store(builder, splits: dict[str, tuple[int, int]], examples: Sequence[bytes]) -> None:
    """Writes splits {name: (records, files)}; record i has example i of those that are given, from
    the first again.
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    root = pathlib.Path(builder.data_dir)
    infos = []
    root.mkdir(parents=True, exist_ok=True)
    template = tfds.core.ShardedFileTemplate(
        data_dir=root, dataset_name=builder.name, filetype_suffix="tfrecord"
    )
    for name, (records, files) in splits.items():
        lengths = [records * (n + 1) // files - records * n // files for n in range(files)]
        turn = itertools.cycle(examples)
        for shard, length in enumerate(lengths):
            path = root / f"{builder.name}-{name}.tfrecord-{shard:05}-of-{files:05}"
            with tf.io.TFRecordWriter(str(path)) as file:
                for example in itertools.islice(turn, length):
                    file.write(example)
        size = records * sum(map(len, examples)) // len(examples)
        infos.append(
            tfds.core.SplitInfo(
                name=name, shard_lengths=lengths, num_bytes=size, filename_template=template
            )
        )
    tfds.folder_dataset.write_metadata(
        data_dir=root,
        features=builder.info.features,
        split_infos=infos,
        filename_template=template,
        check_data=False,
    )


if __name__ == "__main__":
    flags.DEFINE_integer("records", 1_281_167, "training images of ImageNet")
    flags.DEFINE_integer("test_records", 50_000, "validation images of ImageNet")
    flags.DEFINE_integer("files", 1024, "files of ImageNet's training images")
    flags.DEFINE_integer(
        "side", 64, "sides of ImageNet's images; 600 px give the real ones' 110 kB"
    )
    flags.DEFINE_integer("voc", 5011, "training images of VOC, and about as many test images")
    place = "new folder for data and runs, 6 GB; deleted at the end"
    flags.DEFINE_string("folder", "runs/data/imagenet_made_up", place)
    flags.DEFINE_boolean("keep", False, "keep the folder")
    flags.DEFINE_boolean("whole", False, "let each run come to its end")
    flags.DEFINE_list("only", [], "the starts to measure; default: all")
    flags.DEFINE_string(
        "measure", "", "the start to measure in this process; used by the benchmark itself"
    )
    flags.DEFINE_float(
        "began", 0.0, "time at which this process was started; used by the benchmark itself"
    )
    app.run(main)
