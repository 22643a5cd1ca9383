"""The encoder of a run on labels, exported: the run's own network, and a card that says where it comes from."""

import dataclasses
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
from cpc_tf.encoders.config import EncoderConfig, make_encoder
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.encoders.networks import resnet
from cpc_tf.export import encoder as encoder_export
from cpc_tf.export import exporter, restored
from cpc_tf.export.config import ExportConfig
from cpc_tf.export.module import HubEncoder, save
from cpc_tf.export.verify import NotVerified
from cpc_tf.files import write_file
from cpc_tf.settings import ConfigError, flatten, replace, to_flagfile
from cpc_tf.training.checkpoint import Checkpoints
from tests.snippets import printed, python_of

FLAGS = (
    "--resize=18", "--image_size=16", "--crop_area=0.5", "--augment=none", "--backbone=tiny", "--head_blocks=0",
    "--batch_size=2", "--train_steps=2", "--finetune_steps=2", "--steps_per_loop=2", "--labels_per_class=1",
    "--encoder_rate=0.01", "--strategy=single", "--test_split=val",
)  # fmt: skip
GEOMETRY = GeometryConfig(resize=16, image_size=16, patch_size=8, patch_stride=4)
CARD = {"objective": "cpc", "dataset": "photos", "run": "pretrain", "step": 7, "weights": "averaged"}
IMAGES = np.random.default_rng(1).integers(0, 256, [2, 16, 16, 3], np.uint8)


@pytest.fixture(scope="module", autouse=True)
def tinier():
    """'tiny' with one block in each of two stacks: every export traces them many times."""
    stacks = (resnet.Stack(1, 4, 16, 1), resnet.Stack(1, 4, 32, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(resnet.ARCHITECTURES, "tiny", dataclasses.replace(resnet.ARCHITECTURES["tiny"], stacks=stacks))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two dark and two bright pictures each to learn from and to test on."""
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
    settings = EncoderConfig(encoder="tiny", norm="batch")
    encoder = make_encoder(settings)
    encoder(tf.zeros([1, 16, 16, 3]))
    path = tmp_path_factory.mktemp("modules") / "hub"
    save(HubEncoder(encoder, GEOMETRY), str(path))
    card = {"encoder": {**flatten(settings), "recompute": True}, "geometry": flatten(GEOMETRY), **CARD}
    (path / "encoder.json").write_text(json.dumps(card))
    return str(path)


def settings(workdir, encoder, *more, folder="/home/someone/birds"):
    here = [f"--dataset=folder:{folder}", f"--encoder={encoder}", f"--workdir={workdir}"]
    return cli.parse(EfficientConfig, [*FLAGS, *here, *more])


def trained(config):
    """The trained network as the run itself restores it."""
    (_, run), phase = prepare(config, tf.distribute.get_strategy()), phases.first_phase(config)
    first = run.first(phases.folder(config, phase), "chosen")
    if phase == "supervised":
        return first
    return run.fine_tune(phases.folder(config, "fine-tuned"), first, "chosen", 2)[0]


def network_of(config, precision="float32"):
    """The encoder of a run before its training."""
    chosen = config.classifier
    return load_feature_maps(chosen.encoder, chosen.endpoint, 16, backbone=chosen.backbone, seed=1, precision=precision)


def untrained(config, phase, step=2):
    """Writes what a run leaves, made without training and without data; returns its encoder."""
    maps = network_of(config, config.numerics.precision)
    classifier = ResNetClassifier(2, config.classifier)
    classifier.build(tf.TensorShape([None, *maps(np.zeros([1, 16, 16, 3], np.float32)).shape[1:]]))
    trainee = Classification(maps, classifier, phase, config, step, tf.distribute.get_strategy())
    for i, variable in enumerate(maps.trainable_variables):
        variable.assign(variable * (1 + 0.1 * np.cos(i)))
    folder = os.path.join(config.workdir, phase)
    Checkpoints(folder, trainee.checkpoint).save(step)
    found = {"top1": 0.75, "top5": 1.0, "steps": step}
    result = {"kind": "efficient", "num_train_labels": 30, "label_fraction": 0.1, "num_classes": 6}
    write_file(f"{folder}/run.flags", to_flagfile(replace(config, batch_size=4)))
    write_file(f"{config.workdir}/run.flags", to_flagfile(config))
    write_file(f"{config.workdir}/run.json", json.dumps({"task": "efficient"}))
    write_file(f"{config.workdir}/result.json", json.dumps({**result, "phases": {phase: found}}))
    return maps


def export(workdir, output, **flags):
    return exporter.export(ExportConfig(workdir=str(workdir), output=str(output), **flags))


@pytest.fixture
def unchecked(monkeypatch):
    """Leaves the check out, where it is not what is tested."""
    monkeypatch.setattr(encoder_export, "verify", lambda *arguments: {"difference": 0.0, "variables": 0})


def read(path, name):
    with open(os.path.join(path, name)) as file:
        return file.read()


def assert_same_maps(path, network, endpoint):
    """The module, loaded as an encoder of the next run, gives the feature maps of a trained network."""
    maps = load_feature_maps(str(path), endpoint, 16, backbone="")
    wanted = network.encode(IMAGES)
    np.testing.assert_allclose(maps.encode(IMAGES), wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["pixels", "module"])
def test_a_run_becomes_a_module(name, module, folder, tmp_path):
    """From the command to the module, checked in a fresh process."""
    endpoint = {"pixels": "feature_map", "module": "latents"}[name]
    encoder = {"pixels": "pixels", "module": module}[name]
    config = settings(tmp_path / "run", encoder, f"--endpoint={endpoint}", folder=folder)
    result = efficient(config)
    done = export(config.workdir, tmp_path / "hub")
    phase = {"pixels": "supervised", "module": "fine-tuned"}[name]
    assert (done["weights"], done["step"], done["phase"]) == ("raw", 2, phase)
    network = trained(config).encoder
    assert done["variables"] == len(network.trainable_variables)
    assert_same_maps(tmp_path / "hub", network, endpoint)
    assert hub.load(str(tmp_path / "hub")).patched(np.zeros([3, 16, 16, 3], np.float32)).shape[:3] == (
        [3, 1, 1] if name == "pixels" else [3, 3, 3]
    )
    untouched = network_of(config).encode(IMAGES)
    assert np.abs(network.encode(IMAGES) - untouched).max() > 1e-3
    text = read(tmp_path / "hub", "README.md")
    assert f"| top-1 | {100 * result['top1']:.1f} % |" in text
    assert f"| measured on split `val`, 2 classes, step {result['phases'][phase]['steps']} | |" in text


@pytest.mark.parametrize(("kind", "endpoint"), [("", "feature_map"), ("", "latents"), ("graph:", "stack1")])
def test_a_fine_tuned_module_keeps_its_architecture_and_geometry(kind, endpoint, module, tmp_path, unchecked):
    network = untrained(settings(tmp_path / "run", kind + module, f"--endpoint={endpoint}"), "fine-tuned")
    export(tmp_path / "run", tmp_path / "hub")
    assert_same_maps(tmp_path / "hub", network, endpoint)
    card = json.loads(read(tmp_path / "hub", "encoder.json"))
    assert card["encoder"] == flatten(EncoderConfig(encoder="tiny", norm="batch", recompute=True))
    assert card["geometry"] == flatten(GEOMETRY)
    assert card["began_as"] == {"module": "hub", **CARD}
    assert (card["weights"], card["step"], card["phase"], card["num_train_labels"]) == ("raw", 2, "fine-tuned", 30)


@pytest.mark.parametrize("weights", ["averaged", "raw"])
def test_a_fine_tuned_module_has_the_averages_that_were_tested(weights, module, tmp_path, unchecked):
    config = settings(tmp_path / "run", module, "--encoder_adam=paper")
    network = untrained(config, "fine-tuned")  # its averages are still those of the start
    export(tmp_path / "run", tmp_path / "hub", weights=weights)
    assert_same_maps(tmp_path / "hub", network_of(config) if weights == "averaged" else network, "feature_map")
    assert json.loads(read(tmp_path / "hub", "encoder.json"))["weights"] == weights


@pytest.mark.parametrize("name", ["random", "random:MODULE"])
def test_a_new_network_sees_the_whole_image_as_one_patch(name, module, tmp_path, unchecked):
    config = settings(tmp_path / "run", name.replace("MODULE", module), "--precision=bfloat16")
    network = untrained(config, "fine-tuned")
    export(tmp_path / "run", tmp_path / "hub")
    in_float32 = network_of(config)
    for variable, value in zip(in_float32.variables, network.variables):
        variable.assign(value)
    assert_same_maps(tmp_path / "hub", in_float32, "feature_map")
    card = json.loads(read(tmp_path / "hub", "encoder.json"))
    wanted = {"norm": "layer" if name == "random" else "batch", "recompute": name == "random:MODULE"}
    assert card["encoder"] == flatten(EncoderConfig(encoder="tiny", **wanted))
    sides = {"resize": 18, "image_size": 16, "patch_size": 16, "patch_stride": 16}
    assert GeometryConfig(**card["geometry"]) == GeometryConfig(**sides, mirror=True)
    assert card["began_as"] is None
    text = read(tmp_path / "hub", "README.md")
    assert "| began as | random weights |" in text
    assert "It was trained from scratch on 30 labels (10 %) of `folder:birds` (run `run`, step 2).\n" in text
    assert "It saw whole images, 16 x 16 px: the grid is a single patch." in text


def test_the_card_of_a_module_that_was_fine_tuned_twice(module, tmp_path, unchecked):
    untrained(settings(tmp_path / "first", module, "--endpoint=latents"), "fine-tuned")
    export(tmp_path / "first", tmp_path / "once")
    again = settings(tmp_path / "second", tmp_path / "once", "--dataset=flowers", "--split=train[:50%]")
    untrained(again, "fine-tuned", step=4)
    export(tmp_path / "second", tmp_path / "twice")
    text = read(tmp_path / "twice", "README.md")
    assert text.startswith("# Encoder `tiny`, fine-tuned on labels of `flowers`\n")
    assert (
        "It was pre-trained on `photos` without labels (run `pretrain`, step 7), then fine-tuned on 30 labels (10 %) "
        "of `folder:birds` (run `first`, step 2), then fine-tuned on 30 labels (10 %) of `flowers` (run `second`, "
        "step 4)."
    ) in text
    assert "(`photos`, `folder:birds`, `flowers`) may extend" in text
    assert "| pictures | `flowers`, split `train[:50%]`, 30 labels (10 %) |" in text
    assert "| began as | module `once` |" in text
    assert "| classifier | 0 residual blocks on endpoint `feature_map`; not part of this module |" in text
    # The batches are those of the phase, which the search chose.
    assert "| run | `second`, phase `fine-tuned`, step 4 of batches of 4, raw weights |" in text
    assert (
        "| measured on split `val`, 6 classes, step 4 | |\n|---|---|\n| top-1 | 75.0 % |\n| top-5 | 100.0 % |" in text
    )
    assert "while it was fine-tuned it saw whole images, 16 x 16 px." in text
    assert "it saw the patches of the grid on images of 16 x 16 px" in read(tmp_path / "once", "README.md")
    for name in ("README.md", "encoder.json"):
        everything = read(tmp_path / "twice", name)
        assert "$" not in everything
        assert "/home/someone" not in everything
        assert str(tmp_path) not in everything


def test_the_cards_code_runs_with_a_single_patch(tmp_path, unchecked):
    untrained(settings(tmp_path / "run", "pixels"), "supervised")
    export(tmp_path / "run", tmp_path / "hub")
    text = read(tmp_path / "hub", "README.md")
    assert text.startswith("# Encoder `tiny`, trained on labels of `folder:birds`\n")
    assert "| classifier | a linear layer; not part of this module |" in text
    code = python_of(text).replace("path/to/this/directory", str(tmp_path / "hub"))
    assert printed(code, "print(latents.shape)", tmp_path) == "(4, 1, 1, 32)"


def test_the_check_passes_a_new_network_without_batch_norm(tmp_path):
    untrained(settings(tmp_path / "run", "random"), "fine-tuned")
    assert export(tmp_path / "run", tmp_path / "hub")["difference"] < 1e-5


def test_an_older_step(tmp_path, unchecked):
    config = settings(tmp_path / "run", "random")
    untrained(config, "fine-tuned", step=1)
    untrained(config, "fine-tuned")
    assert export(tmp_path / "run", tmp_path / "hub", step=1)["step"] == 1
    assert "step 2, which is not the exported step" in read(tmp_path / "hub", "README.md")
    with pytest.raises(ConfigError, match="--step=3: no such checkpoint in --workdir=.*fine-tuned; there are 1, 2"):
        export(tmp_path / "run", tmp_path / "again", step=3)


@pytest.mark.parametrize(
    ("encoder", "flags", "phases", "message"),
    [
        (
            "runs/hub",
            ["--finetune_steps=0"],
            {"frozen": {"steps": 2}},
            r"\(--finetune_steps=0\); use --encoder=runs/hub",
        ),
        ("runs/hub", [], {"frozen": {"steps": 2}, "fine-tuned": {"steps": 0}}, "0 steps of fine-tuning did best"),
        ("random", ["--finetune_steps=0"], {"frozen": {"steps": 2}}, "there is nothing to export"),
        (
            "https://else.where/hub",
            [],
            {"fine-tuned": {"steps": 2}},
            "--encoder=https://else.where/hub: no enc",
        ),
        ("/nowhere/theirs", [], {"fine-tuned": {"steps": 2}}, "--encoder=/nowhere/theirs: there is no such directory"),
        ("pixels", [], {"supervised": {"steps": 2}}, "supervised: has no checkpoint"),
        ("pixels", [], None, "has no result.json; let `python -m cpc_tf.efficient` get to its end"),
    ],
)
def test_what_cannot_be_exported_is_refused(encoder, flags, phases, message, tmp_path):
    write_file(f"{tmp_path}/run/run.flags", to_flagfile(settings(tmp_path / "run", encoder, *flags)))
    write_file(f"{tmp_path}/run/run.json", json.dumps({"task": "efficient"}))
    if phases:
        result = {"kind": "efficient", "num_train_labels": 30, "label_fraction": 0.1, "phases": phases}
        write_file(f"{tmp_path}/run/result.json", json.dumps(result))
    with pytest.raises(ConfigError, match=f"--workdir={tmp_path}/run.*{message}") as caught:
        export(tmp_path / "run", tmp_path / "hub")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["run"]


@pytest.fixture
def replaced(module, tmp_path):
    """(a copy of the module, path of a run that began as it)."""
    shutil.copytree(module, tmp_path / "copy")
    untrained(settings(tmp_path / "run", tmp_path / "copy"), "fine-tuned")
    return tmp_path / "copy", tmp_path / "run"


def another_network(copy):
    shutil.rmtree(copy / "variables")
    encoder = make_encoder(EncoderConfig(encoder="small", norm="batch"))
    encoder(tf.zeros([1, 16, 16, 3]))
    save(HubEncoder(encoder, GEOMETRY), str(copy))


def another_card(copy):
    card = json.loads((copy / "encoder.json").read_text())
    (copy / "encoder.json").write_text(json.dumps({**card, "encoder": {**card["encoder"], "output_stack": 1}}))


def no_values(copy):
    shutil.rmtree(copy / "variables")


@pytest.mark.parametrize(
    ("replace", "message"),
    [
        (another_network, "--encoder=.*copy: its encoder.json is of another network: .* [0-9]+ in the module"),
        (
            another_card,
            "--encoder=.*copy: its encoder.json is of another network: 21 variables there, 37 in the module",
        ),
        (no_values, "--workdir=.*: the encoder that this run began with is needed: --encoder=.*cannot be read"),
    ],
)
def test_a_module_that_was_replaced(replaced, replace, message, tmp_path):
    copy, run = replaced
    replace(copy)
    with pytest.raises(ConfigError, match=message):
        export(run, tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


def test_mixed_up_variables_are_found(module, tmp_path, monkeypatch):
    untrained(settings(tmp_path / "run", f"graph:{module}"), "fine-tuned")
    with_values = restored.with_values

    def mixed_up(settings, variables, name):  # mean and variance of the last norm
        return with_values(settings, [*variables[:-2], variables[-1], variables[-2]], name)

    monkeypatch.setattr(restored, "with_values", mixed_up)
    with pytest.raises(NotVerified, match="features of the rebuilt encoder differ"):
        export(tmp_path / "run", tmp_path / "hub")
