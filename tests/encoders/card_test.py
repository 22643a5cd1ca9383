"""encoder.json: written, read again, and what is wrong with it said by key; what --encoder
names.
"""

import dataclasses
import json

import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.encoders.card import (
    EncoderCard,
    EncoderName,
    Identity,
    Training,
    find_card,
    module_name,
    parted,
    read_card,
)
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.pretrain.trainee import read_initial_card
from tests.binaries import ROOT
from tests.modules import GEOMETRY, PRETRAINED

SETTINGS = EncoderConfig(encoder="tiny", norm="batch")
CARD = EncoderCard(
    SETTINGS, GEOMETRY, PRETRAINED, 128, 17_000, {"tensorflow": "2.15.1"}, (0.0, 4095.0)
)
LABELS = {"num_train_labels": 30, "label_fraction": 0.1, "phase": "fine-tuned"}


def fine_tuned(before, **known):
    known = {"dataset": "birds", "seed": 1, **LABELS, **known}
    return Training(**known, began_as=before and dataclasses.replace(before, module="hub"))


# Pre-trained on photos, then on birds.
TWICE = dataclasses.replace(
    PRETRAINED, dataset="birds", began_as=dataclasses.replace(PRETRAINED, module="first")
)


@pytest.mark.parametrize(
    ("training", "trained_by", "began_with"),
    [
        (PRETRAINED, "cpc", ""),
        (TWICE, "cpc", "first"),
        (fine_tuned(TWICE), "cpc+labels", "first"),
        (dataclasses.replace(PRETRAINED, objective="rotation"), "rotation", ""),
        (fine_tuned(PRETRAINED), "cpc+labels", ""),
        (fine_tuned(fine_tuned(PRETRAINED), dataset="flowers"), "cpc+labels", ""),
        (fine_tuned(None, phase="supervised"), "labels", ""),
        (fine_tuned(fine_tuned(None)), "labels", ""),
    ],
)
def test_survives_json_and_knows_what_it_is(training, trained_by, began_with):
    card = dataclasses.replace(CARD, training=training)
    assert EncoderCard.from_json(json.loads(json.dumps(card.to_json()))) == card
    wanted = Identity(
        trained_by,
        "tiny",
        training.dataset,
        training.seed,
        17_000,
        "hub",
        began_with,
        training.step,
    )
    assert card.identity("/home/someone/hub/") == wanted


def test_cards_of_other_versions():
    """An earlier one without a setting of the geometry has its default; a later one's keys are left
    out.
    """
    values = CARD.to_json()
    assert values["geometry"].pop("resize_mode") == "squash"
    assert EncoderCard.from_json(values) == CARD
    identity = Identity("cpc", "small", "photos", seed=3, parameters=218_000, module="hub")
    assert (
        Identity.from_json(json.loads(json.dumps({**identity.to_json(), "colour": "red"})))
        == identity
    )


WRONG = [
    ({"step": "7"}, "'step' is \"7\""),
    ({"step": True}, "'step' is true"),
    ({"label_fraction": []}, r"'label_fraction' is \[\]"),
    ({"began_as": {"dataset": 3}}, "'dataset' is 3"),
    ({"encoder": None}, "'encoder' is null"),
    (
        {"encoder": {"encoder": "tiny", "colour": 1}},
        "'encoder' has a 'colour', which this version does not know",
    ),
    ({"encoder": {"encoder": "resnet9"}}, "'encoder': --encoder=resnet9: must be one of"),
    ({"encoder": {"recompute": 1}}, "'encoder': 'recompute' is 1"),
    ({"geometry": {"image_size": 64, "resize": 32}}, "'geometry': --image_size=64: larger than"),
    ({"geometry": {"patch_size": 10**23}}, ".*must be at most 10000"),
    ({"geometry": {"side\n": 1}}, r"'geometry' has a 'side\\n'"),
    ({"seeed": 3}, 'unknown key "seeed"'),
    ({"step": -1}, "'step' is -1"),
    ({"seed": 10**30}, "'seed' is 1000"),
    (
        {"geometry": {**CARD.to_json()["geometry"], "image_size": 10**400}},
        "'geometry': --image_size=1000",
    ),
    ({"feature_dim": 0}, "'feature_dim' is 0"),
    ({"label_fraction": float("nan")}, "'label_fraction' is NaN"),
    ({"dataset": "a\nb"}, "'dataset' is "),
    ({"dataset": "\ud800"}, "'dataset' is "),
    ({"module": "x" * 100_000}, "'module' is "),
    ({"versions": {"tensorflow": 2}}, "'versions' is "),
]
DAMAGED = (
    b"",
    b'{"encoder": {',
    b"[]",
    b"{}",
    b'{"encoder": {}}',
    b"\0",
    b"[" * 100_000,
    b"\xff\xfe",
)


def test_what_is_wrong_is_named_in_one_line(tmp_path):
    wrong = [(json.dumps({**CARD.to_json(), **changed}).encode(), said) for changed, said in WRONG]
    for content, said in (*wrong, *((content, "") for content in DAMAGED)):
        (tmp_path / "encoder.json").write_bytes(content)
        with pytest.raises(
            ConfigError, match=f"--encoder={tmp_path}: its encoder.json is damaged: {said}"
        ) as caught:
            find_card(str(tmp_path))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) <= 1000
    (tmp_path / "encoder.json").unlink()
    (tmp_path / "encoder.json").mkdir()
    with pytest.raises(ConfigError, match="its encoder.json cannot be read"):
        find_card(str(tmp_path))


def test_a_module_of_others_has_none(tmp_path):
    assert find_card(str(tmp_path)) is None
    assert find_card("https://tfhub.dev/a/b/1") is None
    with pytest.raises(
        ConfigError, match=f"--encoder={tmp_path}: no encoder.json in it, .*; it needs --that"
    ):
        read_card(str(tmp_path), "it needs --that")
    with pytest.raises(ConfigError, match="--encoder=.*/typo: there is no such directory"):
        read_card(f"{tmp_path}/typo", "it needs --that")


def test_names_no_folder_of_this_machine():
    known = {
        "/home/someone/runs/photos/small/hub/": "hub",
        "gs://bucket/runs/hub": "hub",
        "https://tfhub.dev/google/bit/m-r50x1/1": "https://tfhub.dev/google/bit/m-r50x1/1",
        "/home/someone/bigbigan-resnet50/1/": "bigbigan-resnet50/1",
        "": "",
    }
    assert {module: module_name(module) for module in known} == known


def test_each_value_of_the_flag_has_one_meaning():
    for text, *meaning in (
        ("runs/photos/small/hub", "module", "runs/photos/small/hub", False),
        ("https://tfhub.dev/a/b/1", "module", "https://tfhub.dev/a/b/1", False),
        ("runs/random", "module", "runs/random", False),
        ("-1..1:runs/theirs", "module", "runs/theirs", False, "-1..1"),
        ("random", "random", "", True),
        ("random:gs://bucket/hub", "random:", "gs://bucket/hub", True),
        ("graph:runs/hub", "graph:", "runs/hub", False),
        ("pixels", "pixels", "", True),
    ):
        name = EncoderName.parse(text)
        assert [name.kind, name.module, name.is_new, *filter(None, [name.pixels])] == meaning


def test_released_module_names_resolve_but_existing_paths_win(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("imagenette_128px", "random:imagenette_128px", "graph:imagenette_128px"):
        name = EncoderName.parse(text)
        assert name.module == str(ROOT / "modules/imagenette_128px")
        assert name.card().identity(name.module).module == "imagenette_128px"
    assert read_initial_card("imagenette_128px").training.dataset == "folder:imagenette-224"
    (tmp_path / "imagenette_128px").mkdir()
    assert EncoderName.parse("graph:imagenette_128px").module == "imagenette_128px"
    with pytest.raises(ConfigError, match="no encoder.json in it"):
        read_initial_card("imagenette_128px")


@pytest.mark.parametrize("before", ["", "-1..1:", "keras:MobileNetV2:"])
def test_commas_part_encoders(tmp_path, before):
    path = tmp_path / "a,b.h5"
    path.write_text("")
    plain = tmp_path / "c.h5"
    plain.write_text("")
    assert parted(f"{before}{path}") == [f"{before}{path}"]
    assert parted(f"imagenette_128px,{before}{plain}") == [
        "imagenette_128px",
        f"{before}{plain}",
    ]
