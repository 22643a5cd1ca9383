"""Table 4 of the paper with our rows."""

from cpc_tf.detect.report import report
from cpc_tf.results.blocks import Finding
from cpc_tf.results.runs import collect
from cpc_tf.tasks import TASKS
from tests.results import samples

TESTED = {"test_images": 8, "test_boxes": 24}


def _detect(*arguments, **more):
    return samples.run(samples.detect(*arguments, **more))


def test_table_4_has_ours_beside_the_papers():
    (part,) = report([_detect()], "voc/2007")
    (table,) = part.blocks
    assert samples.rows(table, "measured") == {"CPC v2": ["small ResNet", "50.0", *["\N{EN DASH}"] * 3]}
    assert samples.rows(table, "paper")["CPC v2"][:2] == ["Faster: R161", "76.6"]
    assert part.findings == [Finding("detection, mAP", {"CPC v2": "50.0"})]


def test_the_first_of_two_phases_has_a_row_and_early_stopping_is_not_short():
    phases = {"frozen": {"map11": 0.4, "steps": 300}, "fine-tuned": {"map11": 0.5, "steps": 90}}
    runs = [_detect(dataset="collages", phases=phases, steps=390, most_steps=450, images=600, **TESTED)]
    (part,) = report(runs, "collages")
    wanted = {
        "CPC v2 (fixed)": ["small ResNet", "40.0", "\N{EN DASH}", "8", "24"],
        "CPC v2": ["small ResNet", "50.0", "\N{EN DASH}", "8", "24"],
    }
    assert samples.rows(part.blocks[0], "measured") == wanted
    assert part.findings == [Finding("detection, mAP", {"CPC v2": "50.0"}, "24 objects in 8 test pictures")]


def test_the_sheet_of_boxes_and_the_curves_of_a_run_are_shown(tmp_path):
    samples.write(tmp_path / "run", samples.detect())
    for name in ("sheet", "curves"):
        (tmp_path / f"run/{name}.png").write_bytes(b"\x89PNG" + name.encode())
    (part,) = report(collect(str(tmp_path), TASKS)[0], "voc/2007")
    assert [figure.png[4:] for figure in part.blocks[1:]] == [b"sheet", b"curves"]


def test_a_short_run_is_called_short():
    (part,) = report([_detect(dataset="collages", steps=3, images=600)], "collages")
    assert part.findings[0].remark.startswith("short run (3 of the preset's ")


def test_nothing_is_shown_where_nothing_was_detected():
    assert report([], "photos") == []
