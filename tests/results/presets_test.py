"""A preset is named for the datasets that it is made for, and for no other; without presets nothing is claimed."""

import pytest

from cpc_tf.results import presets

PRESETS = {
    "photos/15200": "flags/photos/linear.flags",
    "imagenet2012": "flags/imagenet/linear.flags",
    "imagenet2012:5.1.0": "flags/imagenet/linear.flags",
    "imagenette/320px-v2": "flags/imagenette/linear.flags",
    "folder:../data/imagenette-224/": "flags/imagenette/linear.flags",
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
        "flags/voc/detect.flags",
        "flags/voc/detect.flags",
        "flags/bccd/detect.flags",
        "flags/collages/detect.flags",
        "flags/collages/detect_128px.flags",
        *[""] * 3,
    ]


@pytest.mark.parametrize("other", [False, True])
def test_after_pip_install_no_preset_is_named(other, tmp_path, monkeypatch):
    """Also where another package is called `flags`."""
    if other:
        (tmp_path / "flags/photos").mkdir(parents=True)
        (tmp_path / "flags/__init__.py").touch()
    monkeypatch.setattr(presets, "FLAGS", tmp_path / "flags")
    assert presets.own_preset("photos", "linear") == ""
    assert presets.shorter(object, "", 10, 100) == presets.UNKNOWN
    assert presets.remark([presets.UNKNOWN, "", presets.UNKNOWN], "", "so") == f"{presets.UNKNOWN}; so"
