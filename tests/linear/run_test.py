"""Which classifiers a linear run trains, and that divergence is no result."""

import dataclasses

import pytest

from cpc_tf import cli
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.linear import run
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, classifiers, geometry_of, linear, warn_of_geometry
from cpc_tf.settings import ConfigError, flatten, replace, to_flagfile
from cpc_tf.training import loop
from tests import modules, samples

FLAGS = {"geometry_from": "flags", "resize": 64, "image_size": 64, "patch_size": 16, "patch_stride": 16}


def trained(**settings):
    """The encoders that are trained on, in order."""
    config = replace(LinearConfig(), workdir="runs/linear", augment="none", **FLAGS, **settings)
    return [(settings.probe.encoder, settings.workdir) for settings in classifiers(config).values()]


@pytest.mark.parametrize("encoder", ["pixels", "random:somewhere"])
def test_a_baseline_has_no_baselines(encoder):
    assert trained(encoder=encoder) == [(encoder, "runs/linear")]


def test_a_module_that_has_no_untrained_copy_is_refused_before_it_is_trained_on(tmp_path):
    with pytest.raises(ConfigError, match="--nobaselines"):
        trained(encoder=str(tmp_path))
    assert trained(encoder=str(tmp_path), baselines=False) == [(str(tmp_path), "runs/linear")]


def test_our_module_has_both(tmp_path):
    modules.write_card(tmp_path, EncoderConfig(encoder="tiny"))
    assert trained(encoder=str(tmp_path)) == [
        (str(tmp_path), "runs/linear"),
        (f"random:{tmp_path}", "runs/linear/random"),
        ("pixels", "runs/linear/pixels"),
    ]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return samples.write_pictures(tmp_path_factory.mktemp("pictures") / "pictures", {"train": 2, "val": 2})


@pytest.mark.slow
def test_the_data_are_opened_and_told_once_for_all_classifiers(pictures, tmp_path, monkeypatch, capsys):
    modules.write_card(tmp_path, EncoderConfig(encoder="tiny"))
    opened = []

    def probe(settings, data):
        opened.append(data())
        return {"top1": 0.0, "top5": 0.0, "num_classes": 3}, None

    monkeypatch.setattr(run, "train_and_test", probe)
    flags = [
        f"--encoder={tmp_path}",
        f"--dataset=folder:{pictures}",
        f"--data_dir={tmp_path}/cache",
        "--test_split=val",
    ]
    linear(cli.parse(LinearConfig, [*flags, f"--workdir={tmp_path}/run"]))
    assert len(opened) == 3
    assert len(set(map(id, opened))) == 1
    assert capsys.readouterr().out.count("--split=train: 6 images of 3 classes: blue 2, green 2, red 2\n") == 1


def with_card(folder, mirror, *flags):
    """Settings on a card of ours whose pre-training mirrored its images or not."""
    geometry = dataclasses.replace(modules.GEOMETRY, mirror=mirror)
    modules.write_card(folder, EncoderConfig(encoder="tiny"), geometry)
    return cli.parse(LinearConfig, [f"--encoder={folder}", f"--workdir={folder}/run", *flags])


@pytest.mark.parametrize(
    ("card", "flags", "wanted"),
    [
        (True, [], True),
        (True, ["--nomirror"], False),
        (True, ["--mirror"], True),
        (False, [], False),
        (False, ["--geometry_from=flags", "--mirror"], True),
        (True, ["--geometry_from=flags", "--nomirror"], False),
    ],
)
def test_nomirror_counts_whatever_the_module_was_trained_with(tmp_path, card, flags, wanted):
    config = with_card(tmp_path, card, *flags)
    assert geometry_of(config).mirror is wanted
    # Of all classifiers, and when run.flags are replayed.
    assert {geometry_of(settings).mirror for settings in classifiers(config).values()} == {wanted}
    assert cli.parse(LinearConfig, to_flagfile(config).splitlines(), recorded=True) == config


@pytest.mark.parametrize(
    ("card", "flags", "message"),
    [
        (True, ["--nomirror"], "--nomirror: training images are not mirrored, though those of the encoder's"),
        (False, [], "training images are not mirrored, since those of the encoder's"),
        (True, ["--resize=270"], "--resize=270: not used, since --geometry_from=encoder takes 16 from the module's"),
        (True, ["--patch_stride=18"], "--patch_stride=18: not used, since --geometry_from=encoder takes 4 from"),
        (False, ["--geometry_from=flags", "--resize=270"], ""),
        (True, [], ""),
        (False, ["--nomirror"], ""),
    ],
)
def test_what_the_module_contradicts_is_named(tmp_path, caplog, card, flags, message):
    warn_of_geometry(with_card(tmp_path, card, *flags))
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == bool(message)
    assert message in "".join(messages)


def of_card(folder, augment, changes, *flags, encoder=""):
    """What `augment_of` finds with a card of ours that tells an augmentation, or that has None."""
    training = dataclasses.replace(modules.PRETRAINED, augment=augment, augment_changes=changes)
    modules.write_card(folder, EncoderConfig(encoder="tiny"), training=training)
    return cli.parse(LinearConfig, [f"--encoder={encoder or folder}", f"--workdir={folder}/run", *flags])


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ([], AugmentConfig("v1", "jitter=0")),
        (["--augment=encoder", "--augment_engine=reference"], AugmentConfig("v1", "jitter=0", "reference")),
        (["--augment=none"], AugmentConfig("none")),
        (["--augment=full", "--augment_changes=grey=0"], AugmentConfig("full", "grey=0")),
    ],
)
def test_all_classifiers_have_the_augmentation_of_the_encoder_unless_another_is_named(tmp_path, flags, wanted):
    config = of_card(tmp_path, "v1", "jitter=0", *flags)
    assert [augment_of(settings) for settings in classifiers(config).values()] == [wanted] * 3


def test_an_augmentation_that_is_not_known_is_asked_for(tmp_path):
    with pytest.raises(ConfigError, match="its encoder.json does not tell the augmentation; name a policy, e.g. --aug"):
        linear(of_card(tmp_path, None, None))
    with pytest.raises(ConfigError, match="--encoder=pixels: has no pre-training .* --augment=full, the paper's, or"):
        linear(of_card(tmp_path, "v1", None, "--geometry_from=flags", encoder="pixels"))
    with pytest.raises(ConfigError, match="--augment_changes=grey=0: changes a named policy"):
        of_card(tmp_path, "v1", None, "--augment_changes=grey=0")


def of_pixels(pictures, folder, rate):
    """A run of one step on raw pixels."""
    flags = "--test_split=val --encoder=pixels --augment=none --batch_size=2 --train_steps=1 --cached_views=1"
    data = [f"--dataset=folder:{pictures}", f"--data_dir={folder}/cache", f"--workdir={folder}/run"]
    grid = [f"--{name}={value}" for name, value in {**FLAGS, **flatten(modules.GEOMETRY)}.items() if name != "mirror"]
    return cli.parse(LinearConfig, [*flags.split(), f"--learning_rate={rate}", *data, *grid])


@pytest.mark.slow
def test_raw_pixels_alone_are_a_whole_run(pictures, tmp_path, capsys):
    result = linear(of_pixels(pictures, tmp_path, 0.01))
    assert f"{100 * result['top1']:.1f}%" in (tmp_path / "run/table.txt").read_text()
    assert capsys.readouterr().out.endswith(f"results and picture: {tmp_path}/run\n")


@pytest.mark.slow
def test_divergence_in_the_last_step_is_no_result(pictures, tmp_path):
    """The loss of that step was finite: it was computed before the weights were moved."""
    with pytest.raises(loop.Diverged, match=r"Try a smaller --learning_rate$"):
        linear(of_pixels(pictures, tmp_path, 1e38))
    assert not (tmp_path / "run/result.json").exists()
