"""From --dataset to a source with boxes."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data import catalog
from cpc_tf.data.sources import collages, tfds_source
from cpc_tf.data.sources.voc_folder import VocFolder
from cpc_tf.data.sources.voc_tfds import VocRecords
from cpc_tf.settings import ConfigError
from tests import samples


def test_collages_with_a_number(tmp_path):
    source = catalog.open_detection_source("collages/3", str(tmp_path), window=5)
    assert isinstance(source, VocRecords)
    assert source.num_examples == 3
    assert source.class_names == collages.CLASSES
    with pytest.raises(ConfigError, match="^--test_split=valid: collages has the splits test, train$"):
        catalog.open_detection_source("collages/3", str(tmp_path), "valid", split_flag="test_split")


def test_collages_without_a_number_trains_on_600(tmp_path, monkeypatch):
    configs = []

    def only_look(builder, progress):
        configs.append(builder.builder_config)
        raise ConfigError("seen")

    monkeypatch.setattr(tfds_source, "prepare", only_look)
    for dataset in ("collages", "collages/600", "collages/20"):
        with pytest.raises(ConfigError, match="seen"):
            catalog.open_detection_source(dataset, str(tmp_path))
    assert [(c.name, c.train, c.test) for c in configs] == [
        ("600_200", 600, 200),
        ("600_200", 600, 200),
        ("20_200", 20, 200),
    ]


@pytest.mark.parametrize("dataset", ["collages/many", "collages/0", "collages/-1"])
def test_bad_number_of_collages(dataset, tmp_path):
    with pytest.raises(ConfigError, match=f"^--dataset={dataset}: after the slash stands the number of images"):
        catalog.open_detection_source(dataset, str(tmp_path))


def test_voc_folder(tmp_path):
    root = tmp_path / "with:colon"
    for folder in ("JPEGImages", "Annotations"):
        (root / folder).mkdir(parents=True)
    (root / "JPEGImages/a.png").write_bytes(tf.io.encode_png(np.zeros([4, 4, 3], np.uint8)).numpy())
    (root / "Annotations/a.xml").write_text(
        "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>3</ymax></bndbox>"
        "</object></annotation>"
    )
    source = catalog.open_detection_source(f"voc:{root}", str(tmp_path / "cache"))
    assert isinstance(source, VocFolder)
    assert next(source.ordered().as_numpy_iterator())["boxes"].tolist() == [[0, 0, 3, 2]]


def test_negatives_without_xml_reach_the_folder(tmp_path):
    root = samples.write_boxes(tmp_path / "voc")
    (tmp_path / "voc/Annotations/0.xml").unlink()
    arguments = f"voc:{root}", str(tmp_path / "cache")
    with pytest.raises(ConfigError, match="1 of 4 images .* by --negatives_without_xml: 0 "):
        catalog.open_detection_source(*arguments)
    assert catalog.open_detection_source(*arguments, negatives_without_xml=True).num_examples == 4


@pytest.mark.parametrize("dataset", ["photos", "coco/2017", "folder:pictures", ""])
def test_datasets_without_known_boxes(dataset):
    with pytest.raises(ConfigError, match=f"^--dataset={dataset}: has no boxes that are known here; try collages"):
        catalog.open_detection_source(dataset)


def test_no_such_voc(tmp_path):
    with pytest.raises(ConfigError, match="^--dataset=voc/1999: ") as error:
        catalog.open_detection_source("voc/1999", str(tmp_path))
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="^--dataset=voc:/nowhere: no such folder"):
        catalog.open_detection_source("voc:/nowhere", str(tmp_path))
