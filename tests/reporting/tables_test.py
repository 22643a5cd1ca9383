"""The tables: ours beside the paper's, what is missing, and the commands that would measure it."""

import pathlib
import re
import shlex

import pytest

from cpc_tf import cli
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.reporting import confusion, dataset, detection, efficient, headline, ladder, linear_table
from cpc_tf.reporting.blocks import Cell, Gap, Table
from cpc_tf.reporting.collect import Found, Run, collect
from cpc_tf.show_patches import ShowConfig
from export.config import ExportConfig
from tests.reporting import samples

SETTINGS = {
    "cpc_tf.pretrain": PretrainConfig,
    "cpc_tf.linear": LinearConfig,
    "cpc_tf.efficient": EfficientConfig,
    "cpc_tf.show_patches": ShowConfig,
    "export": ExportConfig,
}
pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture
def found(tmp_path):
    samples.all_kinds(tmp_path / "runs")
    return collect(str(tmp_path / "runs"))


def _tables(blocks):
    return {block.name: block for block in blocks if isinstance(block, Table)}


def _text(cell):
    return " ".join(filter(None, [cell.above, cell.text, cell.small])) if isinstance(cell, Cell) else cell


def _rows(table, source):
    """{first cell: the others as texts}; of rows with one name the first."""
    rows = {}
    for row in table.rows:
        if row.source == source:
            rows.setdefault(_text(row.cells[0]), [_text(cell) for cell in row.cells[1:]])
    return rows


def _commands(gap):
    """Each command of a gap, a loop as its first round."""
    text = "\n".join(gap.commands).replace("\\\n", " ")
    text = re.sub(
        r"for (\w+) in (\S+?)[ ;].*?do\n(.*?)\ndone", lambda m: m[3].replace(f"${m[1]}", m[2]), text, flags=re.S
    )
    lines = [shlex.split(line) for line in text.splitlines()]
    assert all(line[:2] == ["python", "-m"] for line in lines)
    return [(line[2], line[3:]) for line in lines]


def _parsed(gap):
    return [cli.parse(SETTINGS[module], words) for module, words in _commands(gap)]


def test_table_2_has_ours_beside_the_papers(found):
    table = efficient.table_2(efficient.curves(found.of("efficient")), "photos")
    columns = ["Labeled data", "1 % 10", "2 %", "5 %", "10 % 100", "20 %", "50 %", "100 % 1,000"]
    assert [_text(cell) for cell in table.columns] == columns
    ours, theirs = _rows(table, "measured"), _rows(table, "paper")
    no = "\N{EN DASH}"
    assert ours["small ResNet trained on pixels"] == ["30.0", no, no, "51.0 ±1.0", no, no, "70.0"]
    assert ours["trained on CPC features"] == ["60.0", no, no, no, no, no, "90.0"]
    assert theirs["ResNet-33 trained on CPC features"][0] == "52.7"
    gains = _rows(table, "gain")
    # 60 % lies between 51 % at 100 labels and 70 % at 1000; CPC has 10.
    factor = 10 * 10 ** (9 / 19)
    assert gains["Gain, interpolated"] == [f"{factor:.0f}×", *[no] * 5, "more than 1×"]  # noqa: RUF001
    assert gains["Gain between measured fractions"] == ["10×", *[no] * 6]  # noqa: RUF001
    assert _rows(table, "paper gain")["Gain, as printed"][:2] == ["5×", "2.5×"]  # noqa: RUF001
    at = {"source": "measured", "metric": "top1", "row": "pixels", "label_fraction": 0.1}
    (datum,) = [datum for datum in table.data if at.items() <= datum.items()]
    assert (datum["value"], datum["low"], datum["high"], datum["runs"]) == (0.51, 0.5, 0.52, 2)


def test_table_3_has_both_phases(found):
    (table,) = efficient.table_3(efficient.curves(found.of("efficient")), "photos")
    ours = _rows(table, "measured")
    assert list(ours) == ["pixels", "CPC (fixed)", "CPC (fine-tuned)"]
    assert ours["CPC (fixed)"][0] == "80.0"
    assert _rows(table, "paper")["CPC v2 (fixed)"] == ["77.1", "90.5", "96.2"]


def test_missing_fractions_are_told_with_the_command(found, tmp_path):
    cpc, pixels = efficient.gaps(efficient.curves(found.of("efficient")), "photos", found, "runs")
    assert cpc.what == "Not measured: CPC at 2 %, 5 %, 10 %, 20 %, 50 % of the labels."
    assert pixels.what == "Not measured: the baseline on pixels at 2 %, 5 %, 20 %, 50 % of the labels."
    (config,) = _parsed(pixels)
    assert (config.classifier.encoder, config.labels.label_fraction) == ("pixels", 0.02)
    (config,) = _parsed(cpc)
    assert (config.classifier.encoder, config.workdir) == ("runs/photos/hub", "runs/photos/efficient/cpc_0.02")


def test_a_runs_own_flags_are_taken(tmp_path):
    runs = tmp_path / "my runs"
    samples.write(runs / "one", samples.efficient(fraction=1.0), run__flags="--learning_rate=0.07\n--encoder=hub\n")
    found = collect(str(runs))
    cpc, pixels = efficient.gaps(efficient.curves(found.runs), "photos", found, str(runs))
    (config,) = _parsed(cpc)
    assert (config.sgd.learning_rate, config.classifier.encoder, config.labels.label_fraction) == (0.07, "hub", 0.01)
    (config,) = _parsed(pixels)
    assert config.classifier.encoder == "pixels"
    assert config.workdir == f"{runs}/photos/efficient/pixels_0.01"


def test_a_studys_commands_are_taken(found):
    command = (
        "python -m cpc_tf.linear --flagfile=flags/photos/linear.flags --learning_rate=0.5 --encoder=x --nobaselines"
    )
    run = Run(samples.linear(commands=["python -m export", command]), "study.json")
    for broken in (command, "python -m cpc_tf.linear 'half", "ls"):
        run.record["commands"][-1] = broken
        gaps = [b for b in linear_table.blocks([run], "photos", Found([run]), "runs") if isinstance(b, Gap)]
        random, pixels = [config for gap in gaps for config in _parsed(gap)]
        assert random.probe.encoder == "random:runs/photos/hub"
        assert (random.probe.learning_rate == 0.5) == (broken == command)
        assert pixels.probe.baselines  # what geometry pixels need is not known: the run with all three


def test_every_gap_of_every_dataset_has_commands_that_parse(found, monkeypatch):
    """Also with one kind of run alone: what is missing then."""
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    gaps = [gap for s in dataset.sections(found, "runs") for gap in s.blocks() if isinstance(gap, Gap)]
    for run in found.runs:
        for name in ("photos", "folder:/data/birds", "imagenet2012"):
            alone = Found([Run({**run.record, "dataset": name}, run.place)])
            gaps += [b for s in dataset.sections(alone, "runs") for b in s.blocks() if isinstance(b, Gap)]
    assert len(gaps) > 20
    for gap in gaps:
        for module, words in _commands(gap):
            if module != "cpc_tf.detect":  # not here yet
                words = [word for word in words if not word.endswith("run.flags")]
                cli.parse(SETTINGS[module], words)


def test_table_1(found):
    table = _tables(linear_table.blocks(found.of("linear"), "photos", found, "runs"))["table1"]
    assert table.columns == ["Method", "Params (M)", "Top-1", "Top-5"]
    no = "\N{EN DASH}"
    assert _rows(table, "measured") == {
        "CPC v2 - small ResNet": ["0.218", "90.0", "100.0"],
        "random encoder - small ResNet": ["0.218", "80.0", "100.0"],
        "pixels": [no, "40.0", "100.0"],
    }
    assert _rows(table, "chance") == {"chance": [no, "33.3", "100.0"]}
    assert _rows(table, "paper")["CPC v2 - ResNet-161"] == ["305", "71.5", "90.1"]


def test_the_ladder():
    runs = [Run(samples.linear(f"runs/ablation/{n}/hub", top1, seed), "x")
            for n, top1, seed in (("1_v1", 0.5, 0), ("1_v1", 0.54, 1), ("2_mc", 0.6, 0), ("4_ln", 0.7, 0))]  # fmt: skip
    runs.append(Run(samples.linear("random:runs/ablation/1_v1/hub", 0.1), "x"))
    figure, table, gap = ladder.blocks(runs, "photos", "runs")
    rows = _rows(table, "measured")
    no = "\N{EN DASH}"
    assert rows["v1"] == ["CPC v1", "52.0 ±2.0", no, no]
    assert rows["MC"] == ["model capacity", "60.0", "+8.0", "+5%"]
    assert rows["LN"][1:3] == ["70.0", no]  # BU is missing below it
    assert "v1 52.0 %; MC 60.0 %; LN 70.0 %" in figure.alt
    assert gap.what == "Not measured: BU, RC, HP, LP, PA (figure 3)."
    pretrain, export, linear = _commands(gap)[:3]
    assert pretrain[1] == ["--flagfile=flags/ablation/pretrain_3_bu.flags", "--workdir=runs/ablation/3_bu"]
    assert "--encoder=runs/ablation/3_bu/hub" in linear[1]
    assert ladder.blocks([], "cifar10", "runs") == []
    (all_missing,) = ladder.blocks([], "photos", "runs")
    assert len(_parsed(all_missing)) == 3


def test_detection(found):
    table, labels, random = detection.blocks(found.of("detect"), "voc", found, "runs")
    assert _rows(table, "measured") == {"CPC": ["small ResNet", "50.0", "\N{EN DASH}"]}
    assert _rows(table, "paper")["CPC v2"][:2] == ["Faster: R161", "76.6"]
    assert [module for module, _ in _commands(labels)] == ["cpc_tf.efficient", "export", "cpc_tf.detect"]
    assert "--encoder=pixels" in _commands(labels)[0][1]
    assert [module for module, _ in _commands(random)] == ["cpc_tf.detect"]


def test_a_detector_on_labels_alone_asks_for_one_on_cpc(found, monkeypatch):
    (run,) = found.of("detect")
    monkeypatch.setitem(run.record, "features", "supervised")
    _, cpc, random = detection.blocks([run], "voc", found, "runs")
    assert "CPC" in cpc.what
    assert _commands(cpc)[-1][0] == "cpc_tf.detect"


def test_headline(found):
    of = {kind: found.of(kind) for kind in ("efficient", "linear", "detect")}
    said = headline.sentences(of["efficient"], of["linear"], of["detect"])
    assert said[0] == (
        "With 10 labels (1 %), CPC reaches 60.0 % top-1 and training on pixels 30.0 %: on pixels it takes 30 times as "
        "many labels to get as far."
    )
    assert said[1] == "With 1,000 (100 %): 90.0 % against 70.0 %."
    assert said[2] == "A linear classifier on frozen CPC features: 90.0 % top-1 (random encoder 80.0 %, pixels 40.0 %)."
    assert headline.sentences(of["efficient"][:1], [], [])[0].endswith(
        "the baseline on pixels is not measured there yet."
    )
    assert headline.sentences([], [], []) == []


def test_a_headline_does_not_flatter():
    runs = [Run(samples.efficient(top1=0.3), "x"), Run(samples.efficient("pixels", top1=0.4), "x")]
    assert headline.sentences(runs, [], [])[0].endswith(
        "30.0 % top-1 and training on pixels 40.0 %: the baseline is not behind."
    )
    runs = [Run(samples.efficient(top1=0.5), "x"), Run(samples.efficient("pixels", top1=0.4), "x")]
    assert headline.sentences(runs, [], [])[0].endswith("and training on pixels 40.0 %.")
    runs.append(Run(samples.efficient("pixels", 1.0, top1=0.45), "x"))
    assert "on pixels it takes more than 10 times as many labels" in headline.sentences(runs, [], [])[0]


def test_confusions(found):
    runs = [run for run in found.of("efficient") if run.file("predictions.csv")]
    assert confusion.matrix(runs[:1]).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert confusion.matrix(runs).tolist() == [[2, 0, 0], [0, 2, 0], [0, 2, 2]]
    _, pairs = confusion.blocks(runs)
    assert _rows(pairs, "measured") == {samples.CLASSES[2]: ["dog", "50 %", "1"]}
    fewer = Run({**runs[0].record, "num_classes": 2}, "x", runs[0].directory)
    assert confusion.matrix([fewer]) is None


def test_of_several_encoders_the_headline_tells_the_best():
    runs = [
        Run(samples.linear(f"runs/photos/{name}/hub", top1), "x") for name, top1 in (("a", 0.8), ("b", 0.9), ("c", 0.7))
    ]
    (said,) = headline.sentences([], runs, [])
    assert said == "A linear classifier on frozen CPC features: 90.0 % top-1 (the best of 3 encoders, photos/b)."
