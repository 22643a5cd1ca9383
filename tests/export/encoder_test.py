"""The encoder of a run on labels, exported: the run's own network, and a card that says where it comes from."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient import phases
from cpc_tf.efficient.classifier import Classification, ResNetClassifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient, prepare
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.export import encoder as encoder_export
from cpc_tf.export import run
from cpc_tf.export.run import ExportConfig
from cpc_tf.export.verify import NotVerified
from cpc_tf.files import write_file
from cpc_tf.settings import ConfigError, flatten, replace, to_flagfile
from cpc_tf.training.checkpoint import Checkpoints
from tests.export.conftest import assert_close, made, read
from tests.modules import GEOMETRY, write_module

pytestmark = pytest.mark.slow

FLAGS = (
    "--resize=18", "--image_size=16", "--crop_area=0.5", "--augment=none", "--backbone=small", "--head_blocks=0",
    "--batch_size=2", "--train_steps=2", "--finetune_steps=2", "--steps_per_loop=2", "--labels_per_class=1",
    "--encoder_rate=0.01", "--strategy=single", "--test_split=val",
)  # fmt: skip
CARD = {
    "objective": "cpc",
    "dataset": "photos",
    "augment": "full",
    "seed": 4,
    "run": "pretrain",
    "step": 7,
    "weights": "averaged",
}
SETTINGS = EncoderConfig(encoder="small", norm="batch", recompute=True)
PIXELS = np.random.default_rng(1).integers(0, 256, [2, 16, 16, 3], np.uint8)
IMAGES = tf.image.convert_image_dtype(PIXELS, tf.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two dark and two bright images each to learn from and to test on."""
    root, random = tmp_path_factory.mktemp("home") / "birds", np.random.default_rng(0)
    for split in ("train", "val"):
        for level, name in enumerate(("dark", "bright")):
            (root / split / name).mkdir(parents=True)
            for number in range(2):
                pixels = random.integers(150 * level, 150 * level + 100, [16, 16, 3], dtype=np.uint8)
                (root / split / name / f"{number}.png").write_bytes(tf.io.encode_png(pixels).numpy())
    return str(root)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """A module of ours. With batch norm its variables are in another order in a hub.KerasLayer."""
    path = tmp_path_factory.mktemp("modules") / "hub"
    write_module(path, SETTINGS)
    return str(path)


def settings(workdir, encoder, *more, folder="/home/someone/birds"):
    here = [f"--dataset=folder:{folder}", f"--encoder={encoder}", f"--workdir={workdir}", "--encoder_adam=keras"]
    return cli.parse(EfficientConfig, [*FLAGS, *here, *more])


def network_of(config, precision="float32"):
    """The encoder of a run before its training."""
    chosen = config.classifier
    return load_feature_maps(chosen.encoder, chosen.endpoint, 16, backbone=chosen.backbone, seed=1, precision=precision)


def untrained(config, phase, step=2, earlier=()):
    """Writes what a run leaves, made without training and without data; returns its encoder."""
    maps = network_of(config, config.numerics.precision)
    classifier = ResNetClassifier(2, config.classifier)
    classifier.build(tf.TensorShape([None, *maps(np.zeros([1, 16, 16, 3], np.float32)).shape[1:]]))
    trainee = Classification(maps, classifier, phase, config, step, tf.distribute.get_strategy())
    for i, variable in enumerate(maps.trainable_variables):
        variable.assign(variable * (1 + 0.1 * np.cos(i)))
    folder = os.path.join(config.workdir, phase)
    for each in (*earlier, step):
        Checkpoints(folder, trainee.checkpoint).save(each)
    found = {"top1": 0.75, "top5": 1.0, "steps": step}
    result = {"kind": "efficient", "num_train_labels": 30, "label_fraction": 0.1, "num_classes": 6}
    write_file(f"{folder}/run.flags", to_flagfile(replace(config, batch_size=4)))
    write_run(config, {**result, "phases": {phase: found}})
    return maps


def write_run(config, result):
    write_file(f"{config.workdir}/run.flags", to_flagfile(config))
    write_file(f"{config.workdir}/run.json", json.dumps({"task": "efficient"}))
    if result:
        write_file(f"{config.workdir}/result.json", json.dumps(result))


def export(workdir, output):
    return run.export(ExportConfig(workdir=str(workdir), output=str(output), part="encoder"))


def maps_of(found, endpoint):
    """The feature maps of an export, as a run on labels sees them."""
    if endpoint == "latents":
        return found.module.patched(IMAGES)
    return found.module(IMAGES, return_endpoints=True)[endpoint]


@pytest.mark.parametrize("name", ["pixels", "module"])
def test_a_run_becomes_a_module(name, module, folder, tmp_path, in_process):
    """From the command to the module; run_test.py checks one in a fresh process."""
    endpoint, phase, encoder = {
        "pixels": ("feature_map", "supervised", "pixels"),
        "module": ("latents", "fine-tuned", module),
    }[name]
    config = settings(tmp_path / "run", encoder, f"--endpoint={endpoint}", folder=folder)
    result = efficient(config)
    done = export(config.workdir, tmp_path / "hub")
    assert (done["weights"], done["step"], done["phase"]) == ("raw", 2, phase)
    # The trained network as the run itself restores it.
    (_, trained), first_phase = prepare(config, tf.distribute.get_strategy()), phases.first_phase(config)
    network = trained.first(phases.folder(config, first_phase), "chosen")
    if phase == "fine-tuned":
        network = trained.fine_tune(phases.folder(config, phase), network, "chosen", 2)[0]
    network = network.encoder
    assert done["variables"] == len(network.trainable_variables)
    # As an encoder of the next run.
    loaded = load_feature_maps(str(tmp_path / "hub"), endpoint, 16, backbone="")
    assert_close(loaded.encode(PIXELS), network.encode(PIXELS))
    patches = hub.load(str(tmp_path / "hub")).patched(np.zeros([3, 16, 16, 3], np.float32))
    assert patches.shape[:3] == ([3, 1, 1] if name == "pixels" else [3, 3, 3])
    untouched = network_of(config).encode(PIXELS)
    assert np.abs(network.encode(PIXELS) - untouched).max() > 1e-3
    text = read(tmp_path / "hub", "README.md")
    assert f"| top-1 | {100 * result['top1']:.1f} % |" in text
    assert f"| measured on split `val`, 2 classes, step {result['phases'][phase]['steps']} | |" in text
    if name == "pixels":
        assert text.startswith("# Encoder `small`, trained on labels of `folder:birds`\n")
        assert "| classifier | a linear layer; not part of this module |" in text


@pytest.mark.parametrize(("kind", "endpoint"), [("", "latents"), ("graph:", "stack1")])
def test_a_fine_tuned_module_keeps_its_architecture_and_geometry(kind, endpoint, module, tmp_path):
    network = untrained(settings(tmp_path / "run", kind + module, f"--endpoint={endpoint}"), "fine-tuned")
    found = made(tmp_path / "run")
    assert_close(maps_of(found, endpoint), network.encode(PIXELS))
    card = found.card
    assert (card["encoder"], card["geometry"]) == (flatten(SETTINGS), flatten(GEOMETRY))
    assert card["began_as"] == {"module": "hub", **CARD}
    assert (card["weights"], card["step"], card["phase"], card["num_train_labels"]) == ("raw", 2, "fine-tuned", 30)


def test_a_fine_tuned_module_has_the_averages_that_were_tested(module, tmp_path):
    config = settings(tmp_path / "run", module, "--encoder_adam=paper")
    network = untrained(config, "fine-tuned")  # its averages are still those of the start
    for weights, wanted in (("averaged", network_of(config)), ("raw", network)):
        found = made(tmp_path / "run", weights=weights)
        assert_close(maps_of(found, "feature_map"), wanted.encode(PIXELS))
        assert found.card["weights"] == weights


@pytest.mark.parametrize("name", ["random", "random:MODULE"])
def test_a_new_network_sees_the_whole_image_as_one_patch(name, module, tmp_path):
    config = settings(tmp_path / "run", name.replace("MODULE", module), "--precision=bfloat16")
    network = untrained(config, "fine-tuned")
    found = made(tmp_path / "run")
    in_float32 = network_of(config)
    for variable, value in zip(in_float32.variables, network.variables):
        variable.assign(value)
    assert_close(maps_of(found, "feature_map"), in_float32.encode(PIXELS))
    assert found.card["encoder"] == flatten(EncoderConfig(encoder="small") if name == "random" else SETTINGS)
    sides = {"resize": 18, "image_size": 16, "patch_size": 16, "patch_stride": 16}
    assert GeometryConfig(**found.card["geometry"]) == GeometryConfig(**sides, mirror=True)
    assert found.card["began_as"] is None
    assert "| began as | random weights |" in found.readme
    assert "It was trained from scratch on 30 labels (10 %) of `folder:birds` (run `run`, step 2).\n" in found.readme
    assert "It saw whole images, 16 x 16 px: the grid is a single patch." in found.readme


def test_the_card_of_a_module_that_was_fine_tuned_twice(module, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "verify", lambda *arguments: {"difference": 0.0, "variables": 0})
    untrained(settings(tmp_path / "first", module, "--endpoint=latents"), "fine-tuned")
    export(tmp_path / "first", tmp_path / "once")
    again = settings(tmp_path / "second", tmp_path / "once", "--dataset=flowers", "--split=train[:50%]")
    untrained(again, "fine-tuned", step=4)
    found = made(tmp_path / "second")
    text = found.readme
    assert text.startswith("# Encoder `small`, fine-tuned on labels of `flowers`\n")
    assert (
        "It was pre-trained on `photos` without labels (run `pretrain`, step 7), then fine-tuned on 30 labels (10 %) "
        "of `folder:birds` (run `first`, step 2), then fine-tuned on 30 labels (10 %) of `flowers` (run `second`, "
        "step 4)."
    ) in text
    assert "(`photos`, `folder:birds`, `flowers`) may extend" in text
    assert "| images | `flowers`, split `train[:50%]`, 30 labels (10 %) |" in text
    assert "| began as | module `once` |" in text
    assert "| classifier | 0 residual blocks on endpoint `feature_map`; not part of this module |" in text
    # The batches are those of the phase, which the search chose.
    assert "| run | `second`, phase `fine-tuned`, step 4 of batches of 4, raw weights |" in text
    assert (
        "| measured on split `val`, 6 classes, step 4 | |\n|---|---|\n| top-1 | 75.0 % |\n| top-5 | 100.0 % |" in text
    )
    assert "while it was fine-tuned it saw whole images, 16 x 16 px." in text
    assert "it saw the patches of the grid on images of 16 x 16 px" in read(tmp_path / "once", "README.md")
    everything = text + json.dumps(found.card)
    assert not any(word in everything for word in ("$", "/home/someone", str(tmp_path)))


def test_an_older_step(tmp_path):
    config = settings(tmp_path / "run", "random")
    untrained(config, "fine-tuned", earlier=[1])
    found = made(tmp_path / "run", step=1)
    assert found.card["step"] == 1
    assert "step 2, which is not the exported step" in found.readme
    with pytest.raises(ConfigError, match="--step=3: no such checkpoint in --workdir=.*fine-tuned; there are 1, 2"):
        made(tmp_path / "run", step=3)


FROZEN, TUNED = {"frozen": {"steps": 2}}, {"fine-tuned": {"steps": 2}}


@pytest.mark.parametrize(
    ("encoder", "flags", "phases", "message"),
    [
        ("runs/hub", ["--finetune_steps=0"], FROZEN, r"\(--finetune_steps=0\); use --encoder=runs/hub"),
        ("runs/hub", [], {**FROZEN, "fine-tuned": {"steps": 0}}, "0 steps of fine-tuning did best"),
        ("random", ["--finetune_steps=0"], FROZEN, "there is nothing to export"),
        ("https://else.where/hub", [], TUNED, "--encoder=https://else.where/hub: no enc"),
        ("/nowhere/theirs", [], TUNED, "--encoder=/nowhere/theirs: there is no such directory"),
        ("pixels", [], {"supervised": {"steps": 2}}, "supervised: holds no run"),
        ("pixels", [], None, "has no result.json; let `python -m cpc_tf.efficient` end"),
    ],
)
def test_what_cannot_be_exported_is_refused(encoder, flags, phases, message, tmp_path):
    result = {"kind": "efficient", "num_train_labels": 30, "label_fraction": 0.1, "phases": phases}
    write_run(settings(tmp_path / "run", encoder, *flags), result if phases else None)
    with pytest.raises(ConfigError, match=f"--workdir={tmp_path}/run.*{message}") as caught:
        export(tmp_path / "run", tmp_path / "hub")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["run"]


def another_network(copy):
    shutil.rmtree(copy)
    write_module(copy, EncoderConfig(encoder="medium", output_stack=1))
    change_card(copy, **flatten(SETTINGS))


def another_card(copy):
    change_card(copy, output_stack=1)


def change_card(copy, **encoder):
    card = json.loads((copy / "encoder.json").read_text())
    (copy / "encoder.json").write_text(json.dumps({**card, "encoder": {**card["encoder"], **encoder}}))


def no_values(copy):
    shutil.rmtree(copy / "variables")


OTHER = "--encoder=.*copy: its encoder.json is of another network: .* [0-9]+ in the module"


def test_a_module_that_was_replaced(module, tmp_path):
    shutil.copytree(module, tmp_path / "copy")
    untrained(settings(tmp_path / "run", tmp_path / "copy"), "fine-tuned")
    for change, message in (
        (another_network, OTHER),
        (another_card, OTHER),
        (no_values, "--workdir=.*: the module that this run began with is needed: --encoder=.*cannot be read"),
    ):
        shutil.rmtree(tmp_path / "copy")
        shutil.copytree(module, tmp_path / "copy")
        change(tmp_path / "copy")
        with pytest.raises(ConfigError, match=message):
            export(tmp_path / "run", tmp_path / "hub")
        assert not (tmp_path / "hub").exists()


def test_mixed_up_variables_are_found(module, tmp_path, monkeypatch):
    untrained(settings(tmp_path / "run", f"graph:{module}"), "fine-tuned")
    with_values = encoder_export.with_values

    def mixed_up(settings, variables, name):  # mean and variance of the last norm
        return with_values(settings, [*variables[:-2], variables[-1], variables[-2]], name)

    monkeypatch.setattr(encoder_export, "with_values", mixed_up)
    with pytest.raises(NotVerified, match="features of the rebuilt encoder differ"):
        export(tmp_path / "run", tmp_path / "hub")
