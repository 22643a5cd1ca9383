import pytest

from cpc_tf import cli
from cpc_tf.detect.config import AnchorConfig, DetectorConfig, RpnConfig
from cpc_tf.settings import ConfigError, leaves, to_flagfile


def test_flags_there_and_back():
    names = [field.name for _, field in leaves(DetectorConfig)]
    assert len(set(names)) == len(names)
    config = cli.parse(DetectorConfig, ["--anchor_sizes=8,16", "--region_head=mlp", "--detections=7"])
    assert config.anchors.numbers("anchor_sizes") == [8, 16]
    assert config.head.region_head == "mlp"
    assert config.inference.detections == 7
    assert cli.parse(DetectorConfig, to_flagfile(config).split()) == config


def test_defaults_are_the_c4_recipe():
    config = DetectorConfig()
    assert config.anchors.numbers("anchor_sizes") == [32, 64, 128, 256, 512]
    assert config.anchors.numbers("anchor_ratios") == [0.5, 1, 2]
    rpn, head, inference = config.rpn, config.head, config.inference
    assert (rpn.rpn_samples, rpn.rpn_positive_iou, rpn.rpn_negative_iou, rpn.rpn_nms_iou) == (256, 0.7, 0.3, 0.7)
    assert (rpn.rpn_train_candidates, rpn.rpn_train_proposals) == (12000, 2000)
    assert (rpn.rpn_test_candidates, rpn.rpn_test_proposals) == (6000, 1000)
    assert (head.region_samples, head.region_positive_fraction, head.region_positive_iou) == (512, 0.25, 0.5)
    assert (inference.detection_score, inference.detection_nms_iou, inference.detections) == (0.05, 0.5, 100)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: AnchorConfig(anchor_sizes="32;64"), "--anchor_sizes=32;64: must be numbers with commas"),
        (lambda: AnchorConfig(anchor_sizes=""), "--anchor_sizes=: must be numbers"),
        (
            lambda: AnchorConfig(anchor_ratios="1,0"),
            "--anchor_ratios=1,0: must be numbers with commas between them, each at least 0.001",
        ),
        (lambda: RpnConfig(rpn_negative_iou=0.8), "rpn_negative_iou=0.8: above rpn_positive_iou=0.7"),
    ],
)
def test_what_cannot_work_is_refused(make, match):
    with pytest.raises(ConfigError, match=match):
        make()
