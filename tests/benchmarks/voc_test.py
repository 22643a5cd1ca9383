"""The made-up VOC 2007: it has VOC's layout, and goes through from records to mAP."""

import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

from benchmarks import voc
from cpc_tf.detect import pictures

pytestmark = pytest.mark.slow

SMALL = """--canvas_height=64 --canvas_width=64 --area_scale=0.009 --batch_size=2 --steps_per_loop=2 --max_boxes=10
    --anchor_sizes=16,32 --rpn_train_candidates=20 --rpn_train_proposals=10 --rpn_test_candidates=20
    --rpn_test_proposals=10 --region_samples=4""".split()


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("voc")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("draw_curves", "draw_sheet"):  # shown in tests/detect
            patch.setattr(pictures, name, lambda *_: b"png")
        return folder, voc.measure(folder, 20, 3, SMALL)


def test_records_of_all_images_go_through_to_map(measured):
    _, result = measured
    assert (result["images"], result["test_images"], result["steps"], result["num_classes"]) == (20, 3, 2, 20)
    assert 0 <= result["map11"] <= 1


def test_it_has_vocs_layout(measured):
    devkit = measured[0] / "VOCdevkit/VOC2007"
    lists = {file.stem: file.read_text().split() for file in (devkit / "ImageSets/Main").iterdir()}
    assert {name: len(found) for name, found in lists.items()} == {"train": 10, "val": 10, "trainval": 20, "test": 3}
    assert lists["trainval"] == [f"{number:06}" for number in range(1, 21)]
    difficult = set()
    for name in (*lists["trainval"], *lists["test"]):
        with Image.open(devkit / f"JPEGImages/{name}.jpg") as image:
            width, height = image.size
        root = ElementTree.parse(devkit / f"Annotations/{name}.xml").getroot()
        assert [int(root.find(f"size/{side}").text) for side in ("width", "height")] == [width, height]
        for item in root.iter("object"):
            left, top, right, bottom = (int(item.find(f"bndbox/{n}").text) for n in ("xmin", "ymin", "xmax", "ymax"))
            assert 1 <= left < right <= width
            assert 1 <= top < bottom <= height
            difficult.add(item.find("difficult").text)
    assert difficult == {"0", "1"}
