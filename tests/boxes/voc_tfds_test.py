"""TFDS's VOC, from a builder that writes as it does."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.object_detection import voc

from cpc_tf.data import datasets
from cpc_tf.data.config import DataConfig
from tests.boxes.samples import open_boxes, xml
from tests.data.samples import encode, write_files

pytestmark = pytest.mark.slow

# VOC's own numbers and what is meant.
IMAGES = {
    "000005": ((30, 40), [("dog", 1, 1, 40, 30), ("Person", 3, 5, 8, 6, 1)]),
    # the first has no width
    "000007": (
        (50, 20),
        [("car", 20, 49, 20, 50), ("cat", 19, 49, 20, 50)],
    ),
    "2008_000008": ((33, 37), []),
    "000009": ((333, 500), [("bird", 123, 45, 456, 300)]),
}
MEANT = {
    b"000005": ([[0, 0, 30, 40], [4, 2, 6, 8]], ["dog", "person"], [False, True]),
    b"000007": ([[48, 18, 50, 20]], ["cat"], [False]),
    b"2008_000008": ([], [], []),
    b"000009": ([[44, 122, 300, 456]], ["bird"], [False]),
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """voc/2007 prepared by TFDS's own builder from an archive of four images, the same for each
    split.
    """
    root = tmp_path_factory.mktemp("archive")
    files = {
        f"ImageSets/Main/{split}.txt": "\n".join(IMAGES) + "\n"
        for split in ("train", "val", "test")
    }
    for name, (size, objects) in IMAGES.items():
        files[f"JPEGImages/{name}.jpg"] = encode(np.zeros(size, np.uint8), "JPEG")
        parts = xml(*objects, size=size).replace(
            b"<difficult>", b"<pose>Left</pose><truncated>0</truncated><difficult>"
        )
        files[f"Annotations/{name}.xml"] = parts
    write_files(root / "VOCdevkit/VOC2007", files)
    data_dir = str(tmp_path_factory.mktemp("tfds"))
    with pytest.MonkeyPatch.context() as patch, datasets.quiet():
        archive = {"trainval": str(root), "test": str(root)}
        patch.setattr(
            tfds.download.DownloadManager, "download_and_extract", lambda self, urls: archive
        )
        voc.Voc(config="2007", data_dir=data_dir).download_and_prepare()
    return data_dir


def open_voc(data_dir, split):
    data = DataConfig(dataset="voc/2007", data_dir=data_dir, shuffle_window=3)
    return open_boxes(data, split)


def test_boxes_are_ours(data_dir):
    source = open_voc(data_dir, "train")
    assert source.class_names == voc._VOC_LABELS
    found = {}
    for example in source.ordered().as_numpy_iterator():
        names = [source.class_names[label] for label in example["labels"]]
        found[example["name"]] = example["boxes"], names, example["difficult"].tolist()
        decoded = tf.io.decode_jpeg(example["encoded"])
        assert tuple(decoded.shape[:2]) == IMAGES[example["name"].decode()][0]
    assert found.keys() == MEANT.keys()
    for name, (boxes, names, difficult) in MEANT.items():
        np.testing.assert_allclose(found[name][0], np.reshape(boxes, [-1, 4]), atol=1e-4)
        assert found[name][1:] == (names, difficult)


def test_stream_goes_on_where_it_was(data_dir):
    source = open_voc(data_dir, "train+validation")
    assert source.num_examples == 8

    def read(start, count):
        examples = source.stream(seed=1, start=start).take(count).as_numpy_iterator()
        return [(int(e["counter"]), e["name"], e["boxes"].tolist()) for e in examples]

    whole = read(0, 20)
    assert sorted(name for _, name, _ in whole[:8]) == sorted([*MEANT, *MEANT])
    assert read(9, 6) == whole[9:15]
