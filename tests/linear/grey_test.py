"""From CPC v1, with batch norm and on grey patches, to a classifier: at no place does its encoder see a colour."""

import csv
import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import prepare
from cpc_tf.embed.config import EmbedConfig
from cpc_tf.embed.run import embed
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.linear import run
from cpc_tf.linear.config import LinearConfig
from tests import modules, samples

pytestmark = [pytest.mark.usefixtures("tiny_encoder"), pytest.mark.slow]
LINEAR = (
    "--test_split=val", "--batch_size=4", "--train_steps=3", "--cached_views=1", "--strategy=single", "--xla=off",
    "--nobaselines",
)  # fmt: skip
EFFICIENT = "--resize=16 --image_size=16 --endpoint=latents --head_blocks=0 --test_split=val --augment=none".split()


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


def test_pictures_in_colour_and_in_grey_are_the_same_to_it(tmp_path, capsys, caplog, monkeypatch):
    colour = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 2})
    places = [f"--dataset=folder:{colour}", f"--data_dir={tmp_path}/cache", f"--encoder={tmp_path}/hub"]
    learned = dataclasses.replace(modules.PRETRAINED, augment="v1")
    modules.write_module(tmp_path / "hub", EncoderConfig(encoder="small", norm="batch"), training=learned)
    run.linear(cli.parse(LinearConfig, [*LINEAR, *places, f"--workdir={tmp_path}/run"]))
    assert "--augment=encoder: v1, as in the encoder's pre-training" in capsys.readouterr().out

    # The check in a process of its own is that of tests/export.
    monkeypatch.setattr("cpc_tf.export.run.verify", lambda *_: {"difference": 0, "variables": 0, "same": 1})
    export(ExportConfig(workdir=f"{tmp_path}/run", output=f"{tmp_path}/classifier"))
    module = tf.saved_model.load(f"{tmp_path}/classifier")
    rows = list(csv.DictReader((tmp_path / "run/predictions.csv").read_text().splitlines()))
    both = [[pathlib.Path(folder, row["file"]) for row in rows] for folder in (colour, made_grey(colour))]
    logits = [
        module(np.stack([tf.io.decode_png(file.read_bytes()) for file in files]))["logits"].numpy() for files in both
    ]
    np.testing.assert_array_equal(*logits)
    # The run itself was tested on the colours.
    names = [name.decode() for name in module.class_names().numpy()]
    assert [names[i] for i in logits[0].argmax(1)] == [row["predicted"] for row in rows]
    np.testing.assert_allclose(
        tf.nn.softmax(logits[0]).numpy().max(1), [float(row["probability"]) for row in rows], atol=2e-3
    )

    pictures = ",".join(map(str, [*both[0], *both[1]]))
    found = embed(EmbedConfig(encoder=f"{tmp_path}/hub", pictures=pictures, batch_size=6))  # a batch of each
    np.testing.assert_array_equal(found.features[:6], found.features[6:])
    assert len(found.features) == 12
    assert "grey as in its training" in found.what

    caplog.clear()
    prepare(
        cli.parse(EfficientConfig, [*EFFICIENT, *places, f"--workdir={tmp_path}/colours"]), tf.distribute.get_strategy()
    )
    assert caplog.text.count("learned on grey images alone, and sees colours here") == 1
