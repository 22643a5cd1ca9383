"""Linear runs: which classifiers they train, what each takes from the module's card, and their
results.
"""

import contextlib
import csv
import dataclasses
import math
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError, replace, to_flagfile
from cpc_tf.data import catalog, pipeline
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import prepare
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export.run import ExportConfig, export
from cpc_tf.linear import run
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, classifiers, geometry_of, linear, warn_of_geometry
from cpc_tf.report.blocks import text
from cpc_tf.report.linear import report
from cpc_tf.report.page import REPORTS
from cpc_tf.report.runs import collect
from cpc_tf.training import loop
from cpc_tf.use.embed import embed
from cpc_tf.use.embed_config import EmbedConfig
from tests import modules, samples
from tests.report.samples import blocks


def trained(**settings):
    """The encoders that are trained on, in order."""
    flags = {
        "geometry_from": "flags",
        "resize": 64,
        "image_size": 64,
        "patch_size": 16,
        "patch_stride": 16,
    }
    config = replace(LinearConfig(), workdir="runs/linear", augment="none", **flags, **settings)
    return [(settings.probe.encoder, settings.workdir) for settings in classifiers(config).values()]


def test_only_our_modules_get_both_baselines(tmp_path):
    """A third-party module has no untrained copy: that is refused before it is trained on."""
    with pytest.raises(ConfigError, match="--nobaselines"):
        trained(encoder=str(tmp_path))
    assert trained(encoder=str(tmp_path), baselines=False) == [(str(tmp_path), "runs/linear")]
    for encoder in ("pixels", "random:somewhere"):
        assert trained(encoder=encoder) == [(encoder, "runs/linear")]
    modules.write_card(tmp_path, EncoderConfig(encoder="tiny"))
    assert trained(encoder=str(tmp_path)) == [
        (str(tmp_path), "runs/linear"),
        (f"random:{tmp_path}", "runs/linear/random"),
        ("pixels", "runs/linear/pixels"),
    ]


@pytest.mark.slow
def test_data_are_opened_once_for_all_classifiers(tmp_path, monkeypatch, capsys):
    pictures = samples.write_pictures(tmp_path / "pictures", {"train": 2, "val": 2})
    modules.write_card(tmp_path, EncoderConfig(encoder="tiny"))
    opened = []

    def probe(settings, data):
        opened.append(data())
        return {"top1": 0.0, "top5": 0.0, "num_classes": 3}, None

    monkeypatch.setattr(run, "train_and_test", probe)
    flags = [f"--encoder={tmp_path}", f"--dataset=folder:{pictures}", "--test_split=val"]
    linear(
        cli.parse(
            LinearConfig, [*flags, f"--data_dir={tmp_path}/cache", f"--workdir={tmp_path}/run"]
        )
    )
    first, *others = opened
    assert [other is first for other in others] == [True, True]
    assert (
        capsys.readouterr().out.count(
            "--split=train: 6 images of 3 classes: blue 2, green 2, red 2\n"
        )
        == 1
    )


def test_nan_test_loss_ends_the_run(monkeypatch):
    nothing = lambda *_, **__: contextlib.nullcontext()  # noqa: E731
    for module, name in (
        *((run, name) for name in ("own_images", "replica_batches", "fetching")),
        *((loop, "train"), (pipeline, "plain_patches")),
    ):
        monkeypatch.setattr(module, name, nothing)
    kind = types.SimpleNamespace(score=lambda *_: {"top1": 0.1, "loss": math.nan})
    trainee = types.SimpleNamespace(
        strategy=None, rows=None, kind=kind, test=lambda *_, **__: (None, None)
    )
    flags = {"geometry_from": "flags", "augment": "none", "batch_size": 1, "train_steps": 1}
    config = replace(LinearConfig(), workdir="runs/x", **flags)
    test_source = types.SimpleNamespace(groups=lambda: None)
    data = catalog.Pair(types.SimpleNamespace(num_examples=1), test_source, "")
    with pytest.raises(
        loop.Diverged, match="loss is nan when tested, in runs/x. Try a smaller --learning_rate"
    ):
        run._trained(config, None, trainee, data, None)


@pytest.mark.parametrize(
    ("card", "flags", "mirror", "message"),
    [
        (True, [], True, ""),
        (True, ["--mirror"], True, ""),
        (
            True,
            ["--nomirror"],
            False,
            "--nomirror: training images are not mirrored, though those of the encoder's",
        ),
        (True, ["--geometry_from=flags", "--nomirror"], False, ""),
        (False, [], False, "training images are not mirrored, since those of the encoder's"),
        (False, ["--nomirror"], False, ""),
        (False, ["--geometry_from=flags", "--mirror", "--resize=270"], True, ""),
        (
            True,
            ["--resize=270"],
            True,
            "--resize=270: not used, since --geometry_from=encoder takes 16 from the mod",
        ),
        (
            True,
            ["--patch_stride=18"],
            True,
            "--patch_stride=18: not used, since --geometry_from=encoder takes 4 from",
        ),
    ],
)
def test_nomirror_overrides_the_card_and_conflict_is_named(
    tmp_path, caplog, card, flags, mirror, message
):
    """The card is ours; its pre-training mirrored images or not."""
    geometry = dataclasses.replace(modules.GEOMETRY, mirror=card)
    modules.write_card(tmp_path, EncoderConfig(encoder="tiny"), geometry)
    config = cli.parse(LinearConfig, [f"--encoder={tmp_path}", f"--workdir={tmp_path}/run", *flags])
    # Of all classifiers, and when run.flags are replayed.
    assert {geometry_of(settings).mirror for settings in classifiers(config).values()} == {mirror}
    assert cli.parse(LinearConfig, to_flagfile(config).splitlines()) == config
    warn_of_geometry(config)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == bool(message)
    assert message in "".join(messages)


def of_card(folder, augment, changes, *flags):
    """Settings on a card of ours that tells an augmentation, or that has None."""
    training = dataclasses.replace(modules.PRETRAINED, augment=augment, augment_changes=changes)
    modules.write_card(folder, EncoderConfig(encoder="tiny"), training=training)
    return cli.parse(LinearConfig, [f"--encoder={folder}", f"--workdir={folder}/run", *flags])


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ([], AugmentConfig("v1", "jitter=0")),
        (
            ["--augment=encoder", "--augment_engine=reference"],
            AugmentConfig("v1", "jitter=0", "reference"),
        ),
        (["--augment=none"], AugmentConfig("none")),
        (["--augment=full", "--augment_changes=grey=0"], AugmentConfig("full", "grey=0")),
    ],
)
def test_classifiers_use_the_augmentation_of_the_encoder(tmp_path, flags, wanted):
    config = of_card(tmp_path, "v1", "jitter=0", *flags)
    assert [augment_of(settings) for settings in classifiers(config).values()] == [wanted] * 3


def test_unknown_augmentation_must_be_given(tmp_path):
    with pytest.raises(
        ConfigError,
        match="its encoder.json does not record the augmentation; name a policy, e.g. --aug",
    ):
        linear(of_card(tmp_path, None, None))


FLAGS = """
    --encoder=pixels --geometry_from=flags --resize=16 --image_size=16 --patch_size=8
    --patch_stride=4 --augment=none --batch_size=8 --train_steps=40 --cached_views=1
    --learning_rate=0.03 --strategy=single
""".split()


@pytest.mark.slow
def test_multi_label_pictures_to_the_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(catalog, "open_pair", samples.MultiLabel.pair)
    result = linear(cli.parse(LinearConfig, [*FLAGS, f"--workdir={tmp_path}/run"]))
    assert not {"top1", "top5"} & result.keys()
    assert result["map"] > result["map_chance"] + 0.2
    printed, table = capsys.readouterr().out, (tmp_path / "run/table.txt").read_text()
    assert printed.endswith(f"\n{table}\nresults and image: {tmp_path}/run\n")
    head, pixels, chance, *_ = table.splitlines()
    assert head == "linear classifier on         mAP  micro-F1"
    assert pixels.startswith(f"encoder                 {100 * result['map']:7.1f}%")
    assert chance == f"chance                  {100 * result['map_chance']:7.1f}%"

    runs, problems = collect(str(tmp_path), REPORTS)
    assert (len(runs), problems) == (1, [])
    (shown,) = blocks(report(runs, "photos"), "several")
    assert shown.fold  # as it has one row
    assert shown.columns == [
        "Method",
        "Labelled images",
        "Test images",
        "mAP, %",
        "Micro-F1, %",
        "Chance, %",
    ]
    found = {row["Method"]: [text(row["Test images"]), text(row["mAP, %"])] for row in shown.rows}
    assert found == {"pixels": ["12", f"{100 * result['map']:.1f}"]}
    assert not blocks(report(runs, "photos"), "linear")


LINEAR = (
    "--test_split=val", "--batch_size=4", "--train_steps=3", "--cached_views=1",
    "--strategy=single", "--xla=off", "--nobaselines",
)  # fmt: skip
EFFICIENT = """
    --resize=16 --image_size=16 --endpoint=latents --head_blocks=0 --test_split=val --augment=none
""".split()


def made_grey(folder):
    """The same images in the grey of `tf.image`, by NumPy."""
    there = pathlib.Path(f"{folder}_grey")
    for file in pathlib.Path(folder).rglob("*.png"):
        pixels = tf.io.decode_png(file.read_bytes()).numpy().astype(np.float64)
        luma = np.floor(pixels @ [0.2989, 0.587, 0.114] + 0.5).astype(np.uint8)
        copy = there / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(tf.io.encode_png(np.stack([luma] * 3, -1)).numpy())
    return str(there)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_encoder")
def test_grey_trained_encoder_ignores_colour(tmp_path, capsys, caplog, monkeypatch):
    colour = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 2})
    places = [
        f"--dataset=folder:{colour}",
        f"--data_dir={tmp_path}/cache",
        f"--encoder={tmp_path}/hub",
    ]
    learned = dataclasses.replace(modules.PRETRAINED, augment="v1")
    modules.write_module(
        tmp_path / "hub", EncoderConfig(encoder="small", norm="batch"), training=learned
    )
    run.linear(cli.parse(LinearConfig, [*LINEAR, *places, f"--workdir={tmp_path}/run"]))
    assert "--augment=encoder: v1, as in the encoder's pre-training" in capsys.readouterr().out

    # The check in a process of its own is that of tests/export.
    monkeypatch.setattr(
        "cpc_tf.export.run.verify", lambda *_: {"difference": 0, "variables": 0, "same": 1}
    )
    export(ExportConfig(workdir=f"{tmp_path}/run", output=f"{tmp_path}/classifier"))
    module = tf.saved_model.load(f"{tmp_path}/classifier")
    rows = list(csv.DictReader((tmp_path / "run/predictions.csv").read_text().splitlines()))
    both = [
        [pathlib.Path(folder, row["file"]) for row in rows]
        for folder in (colour, made_grey(colour))
    ]
    logits = [
        module(np.stack([tf.io.decode_png(file.read_bytes()) for file in files]))["logits"].numpy()
        for files in both
    ]
    np.testing.assert_array_equal(*logits)
    # The run itself was tested on the colours.
    names = [name.decode() for name in module.class_names().numpy()]
    assert [names[guess] for guess in logits[0].argmax(1)] == [row["prediction"] for row in rows]
    np.testing.assert_allclose(
        tf.nn.softmax(logits[0]).numpy().max(1),
        [float(row["probability"]) for row in rows],
        atol=2e-3,
    )

    pictures = ",".join(map(str, [*both[0], *both[1]]))
    # a batch of each
    found = embed(EmbedConfig(encoder=f"{tmp_path}/hub", pictures=pictures, batch_size=6))
    np.testing.assert_array_equal(found.features[:6], found.features[6:])
    assert len(found.features) == 12
    assert "grey as in its training" in found.what

    caplog.clear()
    prepare(
        cli.parse(EfficientConfig, [*EFFICIENT, *places, f"--workdir={tmp_path}/colours"]),
        tf.distribute.get_strategy(),
    )
    assert caplog.text.count("was trained on grey images only, and these images have colours") == 1
