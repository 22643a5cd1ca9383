"""From a run's directory to the module, of each kind: whose weights, what is written, and every way
to fail.
"""

import json
import os
import re
import shutil

import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.core.files import NotWritten, write_file, written_aside
from cpc_tf.core.settings import ConfigError, to_flagfile, unflatten
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export import run
from cpc_tf.export.config import RuntimeConfig
from cpc_tf.export.run import ExportConfig
from cpc_tf.export.shared import Export
from cpc_tf.export.verify import NotVerified
from cpc_tf.linear.config import LinearConfig
from tests.export.conftest import assert_close, made, read
from tests.export.runs import IMAGES, NAMES, RESULT
from tests.snippets import printed, python_of


@pytest.mark.slow
def test_averaged_weights_of_the_newest_step_are_exported(pretrained, hub_dir):
    assert_close(hub.load(hub_dir)(IMAGES), pretrained.features["averaged", 9])


@pytest.mark.slow
def test_chosen_weights_and_step(pretrained):
    found = made(pretrained.path, 7, "raw")
    assert (found.card["weights"], found.card["step"]) == ("raw", 7)
    assert_close(found.module(IMAGES), pretrained.features["raw", 7])
    assert "step 9, which is not the exported step" in found.readme
    others = [values for key, values in pretrained.features.items() if key != ("raw", 7)]
    assert all(abs(other - pretrained.features["raw", 7]).max() > 1e-3 for other in others)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "measured", "summary"),
    [
        (
            "encoder",
            {"difference", "variables"},
            r"small, averaged weights of step 9; .*: largest difference \S+, \d+ var",
        ),
        ("classifier", {"difference"}, "3 classes, weights of step 2; .* largest difference "),
        (
            "detector",
            {"detections", "same"},
            r"3 classes, weights of step 9; .*: \d+ detections, \S+% of them the same",
        ),
    ],
)
def test_export_is_verified_and_names_no_local_folder(exported, kind, measured, summary):
    """In a fresh process. Nothing is left to fill in, either."""
    output, done = exported(kind)
    card, text = json.loads(read(output, f"{kind}.json")), read(output, "README.md")
    assert {"saved_model.pb", "variables", "README.md", f"{kind}.json"} <= set(os.listdir(output))
    assert os.listdir(os.path.dirname(output)) == ["hub"]
    assert set(done) - set(card) == measured | {"summary"}
    assert done.get("difference", 0) < 1e-5
    assert done.get("same", 1) >= 0.9
    assert re.match(summary, done["summary"])
    assert card["versions"]["tensorflow"] == tf.__version__
    everything = text + json.dumps(card)
    assert not any(word in everything for word in ("$", "{{", "{%", "/home/someone", "/tmp"))


@pytest.mark.slow
def test_the_card_of_an_encoder(pretrained, hub_dir):
    card, text = json.loads(read(hub_dir, "encoder.json")), read(hub_dir, "README.md")
    assert unflatten(EncoderConfig, card["encoder"]) == pretrained.config.encoder
    assert unflatten(GeometryConfig, card["geometry"]) == pretrained.config.geometry
    assert (card["feature_dim"], card["step"], card["weights"]) == (8, 9, "averaged")
    assert (card["dataset"], card["run"]) == ("folder:birds", "first_run")
    assert "| run | `first_run`, step 9 of batches of 2, averaged weights |" in text
    assert (
        "| encoder | `small`, 472 parameters, norm `layer`, block_order `pre`, output_stack `1` |"
        in text
    )
    assert "(nats) | 4.250 |" in text
    assert "contrastive accuracy" not in text  # not in this result.json


@pytest.mark.slow
def test_the_card_of_a_classifier(exported):
    output, _ = exported("classifier")
    card, text = json.loads(read(output, "classifier.json")), read(output, "README.md")
    assert read(output, "labels.txt") == "ant\nbee\nwasp\n"
    assert (card["kind"], card["class_names"], card["multi_label"]) == ("classifier", NAMES, False)
    assert (card["image_size"], card["resize"], card["resize_mode"], card["levels"]) == (
        16,
        22,
        "squash",
        None,
    )
    assert (card["temperature"], card["calibration"]) == (2.5, RESULT["calibration"])
    assert (card["dataset"], card["figures"]) == (
        "folder:pictures",
        {"top1": 0.75, "tested": 12},
    )
    assert " are too few to tell the expected calibration error" in text
    assert "step 2 | |\n|---|---|\n| top-1 | 9 of 12 right (75 %, 46 to 92) |\n\n" in text


@pytest.mark.slow
def test_the_card_of_a_detector(exported):
    output, _ = exported("detector")
    card, text = json.loads(read(output, "detector.json")), read(output, "README.md")
    assert (card["class_names"], card["step"], card["run"]) == (NAMES, 9, "first_run")
    assert (card["dataset"], card["detector"]["encoder"]) == ("voc:insects", "random")
    assert (card["canvas"]["canvas_height"], card["levels"]) == (48, [3.0, 900.0])
    assert "overlap of 0.5, 24 objects in 8 test images, step 9 | |" in text
    assert (
        "| over 11 points | 25.0 % |\n| over all points | 50.0 % |\n| COCO's, at an overlap of 0.5"
        " | 45" in text
    )
    assert card["recommended_score"] == 0.35
    assert (
        "best F1 with boxes of a score of 0.35 or more, chosen on the test images: 18 of 20 boxes"
        " right (precision 90.0 %), 18 of 24" in text
    )
    assert f"# Detector of {len(NAMES)} classes" in text


@pytest.mark.slow
def test_the_readmes_code_runs(exported, capsys):
    def code(kind, place=0):
        output, _ = exported(kind)
        found = python_of(read(output, "README.md"), place)
        assert found.count("path/to/this/directory") == 1
        return found.replace("path/to/this/directory", output)

    # In a process of its own: the code chooses Keras before it imports TensorFlow. Eagerly: the
    # first function that Keras rewrites in a process takes many times as long as all else.
    imports, eager = "import tensorflow as tf\n", "tf.config.run_functions_eagerly(True)\n"
    shapes = "print(features.shape, latents.shape, feature_map.shape, model.count_params())"
    shown = printed(
        code("encoder").replace(imports, imports + eager), shapes, exported("encoder")[0]
    )
    assert shown == "(4, 8) (4, 5, 5, 8) (4, 16, 16, 8) 18"
    fine_tuned = "print(len(model.trainable_variables), len(model.history.history['loss']))"
    shown = printed(
        code("encoder", 1).replace(imports, imports + eager), fine_tuned, exported("encoder")[0]
    )
    assert shown == f"{exported('encoder')[1]['variables'] + 2} 1"
    exec(code("classifier"), {})
    name, share = capsys.readouterr().out.split()[-2:]
    assert name in NAMES
    assert 1 / 3 <= float(share) <= 1
    exec(code("detector"), {})
    assert all(line.split()[0] in NAMES for line in capsys.readouterr().out.splitlines())


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_old_version_encoder_is_exported_again(hub_dir, tmp_path):
    """Its values, card and README stay; calls check pixels, and the page says how it is used
    today.
    """
    old, new, page = str(tmp_path / "old"), str(tmp_path / "new"), read(hub_dir, "README.md")
    shutil.copytree(hub_dir, old)
    before, use, after = re.split(r"(\n## Use\n.*?)(?=\n## Licence)", page, flags=re.DOTALL)
    sure = before.replace("it needs TensorFlow, and", "it needs TensorFlow and tensorflow_hub, and")
    write_file(
        f"{old}/README.md", f"{sure}\n## Use\n\nAs ever.\n\n## Other runtimes\n\nNone.\n{after}"
    )
    card = json.loads(read(hub_dir, "encoder.json"))
    done = run.export(ExportConfig(output=new, runtime=RuntimeConfig(module=old)))
    assert done["difference"] < 1e-5
    assert json.loads(read(new, "encoder.json")) == card
    assert read(new, "README.md") == f"{before}{use}\n## Other runtimes\n\nNone.\n{after}"
    for name in ("variables", "trainable_variables"):
        pairs = zip(getattr(hub.load(hub_dir), name), getattr(hub.load(new), name))
        assert all((one.numpy() == other.numpy()).all() for one, other in pairs)


@pytest.mark.slow
def test_damaged_checkpoint_is_skipped(pretrained, tmp_path, caplog):
    path = str(tmp_path / "damaged")
    shutil.copytree(pretrained.path, path)
    os.remove(f"{path}/result.json")  # it has not ended
    data = f"{path}/checkpoints/step_00000009.data-00000-of-00001"
    os.truncate(data, os.path.getsize(data) // 2)
    found = made(path)
    assert found.card["step"] == 7
    assert "step_00000009 is damaged" in caplog.text
    assert_close(found.module(IMAGES), pretrained.features["averaged", 7])
    assert "there are no figures" in found.readme
    with pytest.raises(ConfigError, match="no checkpoint that can be read among 9"):
        made(path, step=9)
    with pytest.raises(ConfigError, match="--step=8: no such checkpoint .* there are 7, 9"):
        run.export(ExportConfig(workdir=path, output=str(tmp_path / "hub"), step=8))
    shutil.rmtree(f"{path}/checkpoints")
    with pytest.raises(ConfigError, match="has no checkpoint"):
        made(path)
    assert os.listdir(tmp_path) == ["damaged"]


@pytest.fixture
def of_linear(tmp_path):
    """The directory of a run of linear classification without a checkpoint."""
    write_file(str(tmp_path / "run/run.flags"), to_flagfile(LinearConfig()))
    write_file(str(tmp_path / "run/run.json"), '{"task": "linear"}')
    return str(tmp_path / "run")


def test_what_cannot_be_written_is_refused_first(of_linear, tmp_path):
    (tmp_path / "precious").write_text("mine")
    for output, error, message in (
        ("", ConfigError, "--output= is empty"),
        ("/proc/nowhere/hub", NotWritten, "--output=/proc/nowhere/hub: cannot be written"),
        (f"{tmp_path}/", ConfigError, "exists already"),
    ):
        with pytest.raises(error, match=message):
            run.export(ExportConfig(workdir=of_linear, output=output))
    with pytest.raises(
        ConfigError, match="--part=encoder: --workdir=.* holds a run of cpc-tf linear, which"
    ):
        run.export(ExportConfig(workdir=of_linear, output=str(tmp_path / "hub"), part="encoder"))
    assert sorted(os.listdir(tmp_path)) == ["precious", "run"]
    assert (tmp_path / "precious").read_text() == "mine"


def test_failed_check_leaves_nothing(of_linear, tmp_path, monkeypatch):
    def fail(*arguments):
        raise NotVerified("the output differs")

    made = Export("classifier", tf.Module(), tf.saved_model.save, {}, "", dict, "")
    monkeypatch.setattr(run, "exporter", lambda *_: lambda *_: made)
    monkeypatch.setattr(run, "verify", fail)
    with pytest.raises(
        NotVerified, match="--output=.*failed its check: the output differs"
    ) as ended:
        run.main(ExportConfig(workdir=of_linear, output=str(tmp_path / "hub")))
    assert ended.value.status == 3
    assert os.listdir(tmp_path) == ["run"]


def test_interrupted_export_is_removed_and_existing_output_kept(tmp_path):
    output = tmp_path / "hub"
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        written_aside(str(output), "output") as directory,
    ):
        open(os.path.join(directory, "half"), "w").close()
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    with (  # noqa: PT012
        pytest.raises(NotWritten, match="cannot be written"),
        written_aside(str(output), "output"),
    ):
        output.mkdir()
        (output / "precious").write_text("mine")
    assert os.listdir(tmp_path) == ["hub"]
    assert (output / "precious").read_text() == "mine"
