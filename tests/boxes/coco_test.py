"""COCO's JSON: one file for the folder, and strange values in it."""

import pytest

from cpc_tf.core.settings import ConfigError
from tests.boxes.samples import (
    CATEGORIES,
    box,
    cats,
    coco,
    contents,
    entries,
    image,
    one,
    picture,
    pictures,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]


def test_a_file_alone_is_train(opened):
    files = {
        "annotations/mine.json": one("a.png"),
        "images/a.png": picture(1),
        "images/b.png": picture(2),
    }
    for at in ("", "annotations/mine.json"):
        assert contents(opened("coco", files, "train", at)) == [cats("a")]
    with pytest.raises(ConfigError, match=r"^--dataset=coco:.*/gone.json: no such file$"):
        opened("coco", {}, "train", "gone.json")


def test_class_id_equals_the_annotated_category_id(opened):
    """Files of Roboflow have one more for all, which may be called as one of them."""
    categories = [{"id": number, "name": "cat"} for number in (0, 2)]
    source = opened(
        "coco", {**pictures("a.png"), "x.json": coco([image(1, "a.png")], [box(1, 2)], categories)}
    )
    assert source.category_ids == {"cat": 2}


STRANGE = [None, [], {"a": [1]}, "\ud800", 10**400, -1, True]


@pytest.mark.parametrize("values", [STRANGE[:1], STRANGE[1:2], STRANGE])
def test_strange_values_are_no_crash(opened, values):
    hostile, images, categories = [], [image(1, "a.png")], [CATEGORIES[0]]
    for number, each in enumerate(values):
        hostile += [
            box(each),
            box(1, each),
            box(1, bbox=[each] * 4),
            box(1, iscrowd=each),
            {"bbox": each},
        ]
        images.append(image(each, f"{number}.png", height=each))
        categories.append({"id": each, "name": each})
    annotations = entries(1, 300 * len(values)) + hostile
    files = pictures("a.png", *(f"{number}.png" for number in range(len(values))))
    source = opened("coco", {**files, "x.json": coco(images, annotations, categories)})
    assert len(contents(source)[0][1]) >= 300 * len(values)
    assert all(name.isprintable() for name in source.class_names)
