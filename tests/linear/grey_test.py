"""From CPC v1, with batch norm and on grey patches, to a classifier: at no place does its encoder see a colour."""

import csv
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import prepare
from cpc_tf.embed.config import EmbedConfig
from cpc_tf.embed.run import embed
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.linear import run
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from tests import samples

pytestmark = [pytest.mark.usefixtures("tiny_encoder"), pytest.mark.slow]
PRETRAIN = (
    "--resize=16", "--image_size=16", "--patch_size=8", "--patch_stride=4", "--augment=v1", "--encoder=small",
    "--norm=batch", "--directions=1", "--steps_to_ignore=0", "--steps_to_predict=1", "--context_blocks=1",
    "--context_dim=8", "--batch_size=4", "--train_steps=2", "--strategy=single", "--xla=off",
)  # fmt: skip
LINEAR = (
    "--test_split=val", "--batch_size=4", "--train_steps=3", "--cached_views=1", "--strategy=single", "--xla=off",
    "--nobaselines",
)  # fmt: skip
EFFICIENT = (
    "--resize=16",
    "--image_size=16",
    "--endpoint=latents",
    "--head_blocks=0",
    "--test_split=val",
    "--augment=none",
)


def made_grey(folder):
    """The same pictures in the grey of `tf.image`, by NumPy."""
    there = pathlib.Path(f"{folder}_grey")
    for file in pathlib.Path(folder).rglob("*.png"):
        pixels = tf.io.decode_png(file.read_bytes()).numpy().astype(np.float64)
        luma = np.floor(pixels @ [0.2989, 0.587, 0.114] + 0.5).astype(np.uint8)
        copy = there / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(tf.io.encode_png(np.stack([luma] * 3, -1)).numpy())
    return str(there)


def predicted(workdir):
    """The rows of predictions.csv but for the names of files."""
    rows = csv.DictReader((workdir / "predictions.csv").read_text().splitlines())
    return [{**row, "file": None} for row in rows]


def test_pictures_in_colour_and_in_grey_are_the_same_to_it(tmp_path, capsys, caplog, monkeypatch):
    mapped = []  # features in the run's pictures
    monkeypatch.setattr(run.embedding_map, "write", lambda _, features, *__: mapped.append(features))
    colour = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 2})
    folders = {"colour": colour, "grey": made_grey(colour)}
    cache = f"--data_dir={tmp_path}/cache"
    pretrain(cli.parse(PretrainConfig, [*PRETRAIN, f"--dataset=folder:{colour}", cache, f"--workdir={tmp_path}/cpc"]))
    export(ExportConfig(workdir=f"{tmp_path}/cpc", output=f"{tmp_path}/hub"))
    said = {}
    for name, folder in folders.items():
        places = [f"--dataset=folder:{folder}", f"--encoder={tmp_path}/hub", f"--workdir={tmp_path}/{name}"]
        run.linear(cli.parse(LinearConfig, [*LINEAR, cache, *places]))
        said[name] = predicted(tmp_path / name)
    assert "--augment=encoder: v1, as in the encoder's pre-training" in capsys.readouterr().out
    assert said["colour"] == said["grey"]
    np.testing.assert_array_equal(*mapped)

    done = export(ExportConfig(workdir=f"{tmp_path}/colour", output=f"{tmp_path}/classifier"))
    assert done["difference"] < 1e-5
    module = tf.saved_model.load(f"{tmp_path}/classifier")
    logits = [
        module(tf.io.decode_png(pathlib.Path(folder, "val/red/0.png").read_bytes())[None])["logits"]
        for folder in folders.values()
    ]
    np.testing.assert_array_equal(*logits)

    both = ",".join(
        str(file) for folder in folders.values() for file in sorted(pathlib.Path(folder, "val").rglob("*.png"))
    )
    found = embed(EmbedConfig(encoder=f"{tmp_path}/hub", pictures=both, batch_size=6))  # a batch of each
    np.testing.assert_array_equal(found.features[:6], found.features[6:])
    assert len(found.features) == 12
    assert "grey as in its training" in found.what

    caplog.clear()
    places = [f"--encoder={tmp_path}/hub", f"--dataset=folder:{colour}", f"--workdir={tmp_path}/colours"]
    prepare(cli.parse(EfficientConfig, [*EFFICIENT, cache, *places]), tf.distribute.get_strategy())
    assert caplog.text.count("learned on grey images alone, and sees colours here") == 1
