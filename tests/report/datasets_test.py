"""What datasets are called; a preset is named for the datasets that it is made for, and for no other."""

import os

from cpc_tf.report.datasets import dataset_id, dataset_titles, own_preset

PRESETS = {
    "linear": {
        "photos/15200": "photos/linear",
        "imagenet2012": "imagenet/linear",
        "imagenet2012:5.1.0": "imagenet/linear",
        "imagenette/320px-v2": "imagenette/linear",
        "folder:../data/imagenette-224/": "imagenette/linear",
        # Names that only begin like another, and folders that are called like an embedded dataset.
        "folder:vocabulary": "",
        "folder:/x/photos": "",
        "imagenet_resized/64x64": "",
        "photosynthesis": "",
        "folder:": "",
        "": "",
    },
    "detect": {
        "voc/2007": "voc/detect",
        "voc:VOCdevkit/VOC2007": "voc/detect",
        "voc:../bccd-voc": "bccd/detect",
        "collages/600": "collages/detect",
        "collages-128px": "collages/detect_128px",
        "voc:/x/voc": "",
        "folder:/x/collages": "",
    },
}


def test_a_preset_is_that_of_the_dataset():
    for task, known in PRESETS.items():
        assert {dataset: own_preset(dataset, task) for dataset in known} == known


def test_datasets_of_one_page_have_names_that_tell_them_apart():
    birds, cells = ["folder:/birds/images", "folder:/cars/images"], ["folder:/x/cells", "voc:/x/cells"]
    for alike in (birds, cells, ["folder:gs://a/images", "folder:gs://b/images"], ["folder:/x/photos", "photos"]):
        assert dataset_titles(alike) == {name: name for name in alike}
    short = {"photos": "photos", "photos/15200": "photos", "folder:/data/sets/birds/": "birds", "voc/2007": "voc/2007",
             "folder:/fruit/train": "fruit", "cifar10": "cifar10", "folder:": "folder:", "": ""}  # fmt: skip
    assert dataset_titles(short) == short


def test_a_folder_has_one_name_however_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "birds/images").mkdir(parents=True)
    os.symlink(tmp_path / "birds", tmp_path / "link")
    written = ("birds/images", "birds/images/", "./birds/../birds/images", "~/birds/images", f"{tmp_path}/birds/images",
               "link/images")  # fmt: skip
    assert len({dataset_id(f"folder:{path}") for path in written}) == 1
    assert {*dataset_titles([f"folder:{path}" for path in written]).values()} == {"images"}
