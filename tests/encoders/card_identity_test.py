import json

import pytest

from cpc_tf.encoders.card import Identity, module_name


def test_survives_json():
    identity = Identity("cpc", "small", "photos", seed=3, parameters=218_000, module="hub")
    assert Identity.from_json(json.loads(json.dumps(identity.to_json()))) == identity


def test_a_later_versions_keys_are_left_out():
    assert Identity.from_json({"trained_by": "pixels", "colour": "red"}) == Identity("pixels")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("/home/someone/runs/photos/hub/", "hub"),
        ("gs://bucket/runs/hub", "hub"),
        ("https://tfhub.dev/google/bit/m-r50x1/1", "https://tfhub.dev/google/bit/m-r50x1/1"),
        ("", ""),
    ],
)
def test_names_no_folder_of_this_machine(module, name):
    assert module_name(module) == name
