"""A preset is named for the datasets that it is made for, and for no other."""

import pytest

from cpc_tf.results import presets

PRESETS = {
    "photos/15200": "photos/linear",
    "imagenet2012": "imagenet/linear",
    "imagenet2012:5.1.0": "imagenet/linear",
    "imagenette/320px-v2": "imagenette/linear",
    "folder:../data/imagenette-224/": "imagenette/linear",
    # Names that only begin like another, and folders that are called like an embedded dataset.
    "folder:vocabulary": "",
    "folder:/x/photosynthesis": "",
    "folder:/x/photos": "",
    "folder:/x/imagenet_sketch": "",
    "imagenet_resized/64x64": "",
    "photosynthesis": "",
    "folder:": "",
    "": "",
}


@pytest.mark.parametrize("dataset", PRESETS)
def test_a_preset_is_that_of_the_dataset(dataset):
    assert presets.own_preset(dataset, "linear") == PRESETS[dataset]


def test_detectors_have_presets_of_their_own():
    datasets = ("voc/2007", "voc:VOCdevkit/VOC2007", "voc:../bccd-voc", "collages/600", "collages-128px",
                "folder:/x/vocabulary", "voc:/x/voc", "folder:/x/collages")  # fmt: skip
    assert [presets.own_preset(dataset, "detect") for dataset in datasets] == [
        "voc/detect",
        "voc/detect",
        "bccd/detect",
        "collages/detect",
        "collages/detect_128px",
        *[""] * 3,
    ]
