"""What a dataset's page begins with: the best model that lies there, and commands that can be copied."""

import shlex

from cpc_tf import cli
from cpc_tf.report.model import model
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from tests import binaries
from tests.results import samples

PNG = b"\x89PNG\r\n"


def _parts(folder):
    return model(collect(str(folder), TASKS)[0])


def _table(blocks):
    return {row.values[0]: row.values[1] for row in blocks[0].rows}


def _settings(commands):
    """The settings of each command, in the order of the binaries."""
    found = []
    for _, command in commands.lines:
        python, dash_m, module, *flags = shlex.split(command)
        assert (python, dash_m) == ("python", "-m")
        found.append((module.removeprefix("cpc_tf."), cli.parse(binaries.settings_of(module), flags)))
    return found


def test_the_best_model_of_a_directory_with_its_commands(tmp_path):
    folder = tmp_path / "my runs"
    samples.write(folder / "linear", samples.linear("runs/photos/hub", 0.9))
    samples.write(folder / "few", samples.efficient("runs/photos/hub", 0.01, 0.6))
    samples.write(folder / "untrained", samples.linear("random:runs/photos/hub", 0.99))
    samples.write(folder / "pixels", samples.linear("pixels", 0.95))  # a baseline is better: the table above says so
    (folder / "few/map.png").write_bytes(PNG + b"few")
    (folder / "few/map.csv").write_text("x,y,label\n0.5,1.5,2\n")
    ((order, name, _, blocks, findings),) = _parts(folder)
    assert (order, name, findings) == (0, "use", ())
    shown = _table(blocks)
    assert shown == {
        "Encoder": "CPC v2, small ResNet, 218,048 parameters, trained on photos/100",
        "Its module": "runs/photos/hub",
        "On top of it": "linear classifier, 1,000 labels",
        "How good": "90.0 % of test images right",
        "For comparison": "chance: 16.7 %",
        "Its run": f"{folder}/linear",
    }
    (export, exported), (predict, predicted), (embed, embedded) = _settings(blocks[1])
    assert (export, predict, embed) == ("export", "predict", "embed")
    assert exported.workdir == f"{folder}/linear"
    assert predicted.model == exported.output == f"{folder}/linear/model"
    assert embedded.encoder == "runs/photos/hub"
    assert blocks[2].png == PNG + b"few"  # of the same encoder
    assert blocks[2].data == [{"x": "0.5", "y": "1.5", "label": "2"}]


def test_after_pretraining_alone_the_next_step_is_a_classifier(tmp_path):
    samples.write(tmp_path / "pretrain", samples.pretrain())
    ((*_, blocks, _),) = _parts(tmp_path)
    (export, exported), (linear, settings) = _settings(blocks[1])
    assert (export, linear) == ("export", "linear")
    assert settings.probe.encoder == exported.output == f"{tmp_path}/hub"
    assert settings.data.labelled == "my_labelled_pictures"


def test_a_baseline_has_no_encoder_to_embed_with_and_a_detector_is_judged_by_its_precision(tmp_path):
    samples.write(tmp_path / "labels/pixels", samples.efficient("pixels"))
    ((*_, blocks, _),) = _parts(tmp_path / "labels")
    assert "Its module" not in _table(blocks)
    assert [name for name, _ in _settings(blocks[1])] == ["export", "predict"]
    samples.write(tmp_path / "boxes/detect", samples.detect(map11=0.5, test_images=8, test_boxes=24))
    ((*_, blocks, _),) = _parts(tmp_path / "boxes")
    assert _table(blocks)["How good"] == "50.0 % mean average precision (8 test pictures, 24 objects)"
    assert _table(blocks)["What that tells"].startswith("only 8 test pictures: the mAP is a rough guide")


def test_a_class_that_is_never_found_shows(tmp_path):
    """95 % right, as the larger class alone gives."""
    classes = {
        "good": {"tested": 19, "predicted": 20, "right": 19},
        "defect": {"tested": 1, "predicted": 0, "right": 0},
    }
    about = {"tested": 20, "class_mean": 0.5, "largest_class": 0.95, "classes": classes}
    samples.write(tmp_path / "few", samples.efficient(top1=0.95, num_classes=2, class_names=[*classes], **about))
    ((*_, (model, table, *_), _),) = _parts(tmp_path)
    shown = _table([model])
    assert shown["How good"] == "19 of 20 right (95 %, 76 to 99)"
    assert shown["For comparison"] == "chance: 50.0 %, always the largest class: 95.0 %"
    assert shown["Mean of the classes"] == "50.0 %"
    assert shown["What that tells"].startswith("only 20 test pictures")
    none = "\N{EN DASH}"
    wanted = {"defect": ["1", "0", "0", "0", none], "good": ["19", "19", "20", "100", "95"]}
    assert samples.rows(table, "measured") == wanted
    assert table.data[1]["Precision, %"] == 95


def test_records_without_directories_have_no_model():
    assert model([samples.run(samples.linear())]) == []
