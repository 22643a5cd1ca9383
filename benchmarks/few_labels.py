"""Accuracy and CPU seconds of `classify`, of `efficient` and of ten lines of scikit-learn, on the
same few labels.

    python -m benchmarks.few_labels --pictures=imagenette-224 --labels=100 --draws=3

`--pictures` has train/CLASS/ and val/CLASS/. Of each draw 2,000 images of train are in a flat
folder, some of them labelled by a table; 500 of val are new. All three use the same encoder. Prints
a line a draw and way, then the means.
"""

import csv
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from absl import app, flags

FOLDER = 2000
LABELLED = "mine"
NEW = "new"
WAYS = ("classify", "efficient", "scikit-learn")
SCIKIT_LEARN = """
import sys, csv, numpy as np, cpc_tf
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
encoder = cpc_tf.load_encoder(sys.argv[1])
rows = [*csv.DictReader(open("labels.csv"))]
features = encoder.features([f"mine/{row['file']}" for row in rows])
model = make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000))
model.fit(features, [r["label"] for r in rows])
names = sorted(p.name for p in __import__("pathlib").Path("new").iterdir())
guesses = model.predict(encoder.features([f"new/{name}" for name in names]))
csv.writer(open("scikit-learn.csv", "w")).writerows([["file", "label"], *zip(names, guesses)])
"""


def define_flags() -> None:
    """Defines the flags of this benchmark."""
    flags.DEFINE_string("pictures", None, "Folder with train/CLASS/ and val/CLASS/", required=True)
    flags.DEFINE_string("encoder", "modules/imagenette_128px", "Module that all use")
    flags.DEFINE_integer("labels", 100, "Labelled images")
    flags.DEFINE_integer("draws", 1, "Draws of images and labels")
    flags.DEFINE_list("ways", [*WAYS], f"Some of {', '.join(WAYS)}")


def draw(pictures: pathlib.Path, place: pathlib.Path, labels: int, seed: int) -> dict[str, str]:
    """Fills a folder with links to images and a table of labels; returns {new image: its class}."""
    random = np.random.default_rng(seed)
    truth = {}
    for split, folder, count in (("train", LABELLED, FOLDER), ("val", NEW, 500)):
        (place / folder).mkdir()
        files = sorted(path for path in (pictures / split).rglob("*") if path.is_file())
        chosen = [files[i] for i in random.permutation(len(files))[:count]]
        for number, path in enumerate(chosen):
            name = f"{number:04}{path.suffix}"
            (place / folder / name).symlink_to(path.resolve())
            truth[f"{folder}/{name}"] = path.parent.name
    rows = [
        [name, truth[f"{LABELLED}/{name}"]]
        for name in sorted(os.listdir(place / LABELLED))[:labels]
    ]
    with open(place / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows([["file", "label"], *rows])
    return {
        name.partition("/")[2]: label for name, label in truth.items() if name.startswith(f"{NEW}/")
    }


def commands(way: str, encoder: str) -> list[list[str]]:
    """Returns what a way runs, one process after the other; the last one writes WAY.csv."""
    data = [f"--encoder={encoder}", f"--labelled={LABELLED}", "--labels=labels.csv"]
    program = [sys.executable, "-m", "cpc_tf"]
    if way == "classify":
        new = [f"--pictures={NEW}", "--output=classify.csv"]
        return [[*program, "classify", *data, "--workdir=runs/classify", *new]]
    if way == "efficient":
        return [
            [*program, "efficient", *data, "--finetune_steps=0", "--workdir=runs/efficient"],
            [*program, "export", "--workdir=runs/efficient", "--output=runs/classifier"],
            [
                *program,
                "predict",
                "--model=runs/classifier",
                f"--pictures={NEW}",
                "--output=efficient.csv",
            ],
        ]
    return [[sys.executable, "-c", SCIKIT_LEARN, encoder]]


def main(_: list[str]) -> None:
    root = pathlib.Path(__file__).parent.parent
    measured = {}
    encoder = os.path.abspath(flags.FLAGS.encoder)
    environment = {**os.environ, "PYTHONPATH": str(root)}
    for seed in range(flags.FLAGS.draws):
        with tempfile.TemporaryDirectory() as folder:
            truth = draw(
                pathlib.Path(flags.FLAGS.pictures), pathlib.Path(folder), flags.FLAGS.labels, seed
            )
            for way in flags.FLAGS.ways:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                began = time.monotonic()
                for command in commands(way, encoder):
                    subprocess.run(
                        command, cwd=folder, env=environment, check=True, capture_output=True
                    )
                used = resource.getrusage(resource.RUSAGE_CHILDREN)
                wall = time.monotonic() - began
                cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
                with open(os.path.join(folder, f"{way}.csv")) as file:
                    right = np.mean(
                        [truth[row["file"]] == row["label"] for row in csv.DictReader(file)]
                    )
                measured.setdefault(way, []).append((100 * right, cpu, wall))
                print(
                    f"draw {seed}  {way:13} {100 * right:5.1f} %  {cpu:6.1f} CPU s  {wall:6.1f} s",
                    flush=True,
                )
    for way, rows in measured.items():
        accuracy, cpu, wall = np.mean(rows, 0)
        print(f"mean    {way:13} {accuracy:5.1f} %  {cpu:6.1f} CPU s  {wall:6.1f} s")


if __name__ == "__main__":
    define_flags()
    app.run(main)
