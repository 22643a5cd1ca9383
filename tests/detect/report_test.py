"""Table 4, and which detectors are missing."""

from cpc_tf.detect.report import report
from tests.results import samples


def _detect(*arguments, **more):
    return samples.run(samples.detect(*arguments, **more))


def test_table_4_has_ours_beside_the_papers():
    (part,) = report([_detect()], "voc/2007")
    table, labels, random = part.blocks
    assert samples.rows(table, "measured") == {"CPC v2": ["small ResNet", "50.0", "\N{EN DASH}"]}
    assert samples.rows(table, "paper")["CPC v2"][:2] == ["Faster: R161", "76.6"]
    assert labels.what == "Not measured: a detector on an encoder trained on labels."
    assert random.how == "flags/voc/detect.flags with --encoder=random"
    assert part.headline == ["Detection, mean average precision: CPC v2 50.0 %."]


def test_a_detector_on_labels_alone_asks_for_one_on_a_pretrained_encoder():
    (part,) = report([_detect("random"), _detect("hub", trained_by="labels")], "voc")
    assert [gap.what for gap in part.blocks[1:]] == [
        "Not measured: a detector on an encoder pre-trained without labels."
    ]


def test_a_short_run_is_called_short():
    (part,) = report([_detect(dataset="collages", steps=3, images=600)], "collages")
    assert part.headline[0].startswith("In short runs (3 steps, the preset trains ")


def test_nothing_is_shown_where_nothing_was_detected():
    assert report([], "photos") == []
