"""A preset is named for the datasets that it is made for, and for no other."""

from cpc_tf.results import presets

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
        assert {dataset: presets.own_preset(dataset, task) for dataset in known} == known
