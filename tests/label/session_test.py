"""What the page is told: images to label, guesses, figures that are of a random sample, slips."""

import re
import time

import numpy as np
import pytest

from cpc_tf.classify import random_sample
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.data import pool
from cpc_tf.data.config import PicturesConfig
from cpc_tf.encoders.side_by_side import open_encoder
from cpc_tf.label import guesses
from cpc_tf.label.config import LabelConfig
from cpc_tf.label.finish import commands
from cpc_tf.label.gallery import open_gallery
from cpc_tf.label.session import Session, TakenOver
from cpc_tf.label.table import Label
from tests import modules


@pytest.fixture
def session(config, opened):
    """A session that page 'p' has claimed."""
    made = Session(config, opened)
    made.claim("p", force=False)
    return made


def settled(session):
    """The state when guesses and figures are those of the labels."""
    for _ in range(6000):
        state = session.state("p")
        assert not any("failed" in remark for remark in state["remarks"])
        if not state["pending"]:
            return state
        time.sleep(0.01)
    raise AssertionError("still pending")


def give(session, pictures, name=None):
    """Labels images with their class, that of their folder, or with a name."""
    for picture in pictures:
        session.label(
            "p", [picture["index"]], "set", name or picture["file"].partition("/")[0], "person"
        )


def test_labels_train_a_classifier_tested_on_random_sample(session):
    state = session.state("p")
    assert (state["pictures"], state["labelled"], state["figures"], state["pending"]) == (
        48,
        0,
        None,
        False,
    )
    give(session, session.next(8)["pictures"])
    state = settled(session)
    sentence = r"not measured yet: [234] of 10 images drawn at random have a label"
    assert re.fullmatch(sentence, state["figures"]["sentence"])
    while state["labelled"] < 47:
        give(session, session.next(8)["pictures"][: 47 - state["labelled"]])
        state = session.state("p")
    state = settled(session)
    assert state["figures"]["accuracy"] == 1
    assert "of those drawn at random" in state["figures"]["sentence"]
    (last,) = session.next(8)["pictures"]
    assert last["guess"] == last["file"].partition("/")[0]
    assert session.surest(last["guess"], 5)["pictures"][0]["index"] == last["index"]
    assert [each["index"] for each in session.like(3, 5)["pictures"]] == [last["index"]]
    assert {each["name"]: each["count"] for each in state["classes"]} == {
        name: 16 - (name == last["guess"]) for name in ("blue", "green", "red")
    }
    wrong = next(each for each in session.all(0, 50, "red")["pictures"])
    give(session, [wrong], "blue")
    settled(session)
    first = session.slips()["pictures"][0]
    assert (first["index"], first["labels"], first["guess"]) == (wrong["index"], ["blue"], "red")
    assert session.step("p", back=True)["changed"] == [wrong["index"]]
    assert session.rename("p", "red", "rot")["classes"][-1]["name"] in ("rot", "green", "blue")
    assert session.all(0, 50, "rot")["total"] == 16 - (last["guess"] == "red")
    settled(session)
    points = session.map()["points"]
    assert sum(point[4] for point in points) == 47
    assert np.min(points) == 0


def test_skipped_images_come_last_also_after_reload(session):
    """But for those of the random sample, which come first: without them no accuracy could be
    stated.
    """
    sample = {*random_sample.of(session.gallery.pictures.names, 0).tolist()}
    first = {each["index"] for each in session.next(10)["pictures"]}
    second = {each["index"] for each in session.next(10)["pictures"]}
    assert len(first & sample) == 2
    assert first & second == first & sample
    session.claim("p2", force=True)
    assert {each["index"] for each in session.next(10)["pictures"]} == second
    session.next(20)
    rest = {each["index"] for each in session.next(10)["pictures"]}
    assert len(rest - sample) == 36 - 16 - 15
    assert {each["index"] for each in session.next(10)["pictures"]} == first


def test_skipped_screen_does_not_stop_accuracy_estimates(session):
    session.next(12)
    while session.state("p")["labelled"] < 47:
        give(session, session.next(12)["pictures"][:12])
    assert settled(session)["figures"]["sample"] == 12


@pytest.mark.parametrize("other", ["CAT", " cat", "c\u200bat"])
def test_a_class_is_there_under_another_spelling(session, other):
    session.label("p", [0], "set", "cat", "person")
    state = session.label("p", [1], "set", other, "person")
    assert (state["class"], len(state["classes"]), session.table.classes) == ("cat", 1, ["cat"])
    assert session.rename("p", "cat", "Cat")["class"] == "Cat"


def test_equivalent_class_names_are_reported_until_joined(config, opened):
    with open(config.labels, "w") as file:
        file.write("file,label\nblue/1.png,sea  lion\nblue/2.png,sea lion\n")
    session = Session(config, opened)
    session.claim("p", force=False)
    assert session.state("p")["remarks"] == [
        '"sea  lion" and "sea lion" are read as one class; rename one to join them'
    ]
    assert session.rename("p", "sea  lion", "sea lion")["remarks"] == []


def test_deleted_images_leave_page_while_table_stays_usable(session, folder, config):
    shown = session.next(24)["pictures"]
    give(session, shown[:12])
    for picture in shown[10:14]:
        (folder / picture["file"]).unlink()
    assert session.label("p", [shown[12]["index"]], "set", "red", "person")["gone"] == [
        shown[12]["index"]
    ]
    state = session.label("p", [each["index"] for each in shown[13:15]], "set", "red", "person")
    assert (state["gone"], state["labelled"]) == ([shown[13]["index"]], 13)
    gone = {each["index"] for each in shown[10:14]}
    pages = session.next(24), session.all(0, 99, ""), session.like(shown[0]["index"], 40)
    assert not gone & {each["index"] for page in pages for each in page["pictures"]}
    state = session.state("p")
    assert (state["pictures"], state["labelled"], session.all(0, 99, "")["total"]) == (44, 11, 44)
    assert state["remarks"] == [
        f"4 images are no longer in {folder}; their rows stay in {config.labels}"
    ]
    assert not gone & {point[0] for point in session.map()["points"]}
    table = pool.table_of(PicturesConfig(labelled=str(folder), labels=config.labels))
    assert any("images are no longer there: 2" in note for note in table.notes)


def test_one_page_at_a_time_changes_labels(session):
    with pytest.raises(TakenOver, match="open on another page"):
        session.claim("q", force=False)
    session.claim("q", force=True)
    with pytest.raises(TakenOver, match="now open on another page"):
        session.label("p", [0], "set", "cat", "person")
    assert session.label("q", [0], "set", "cat", "person")["labelled"] == 1


def test_changes_of_another_program_are_shown(session, config):
    give(session, session.next(2)["pictures"], "cat")
    path = session.table.path
    with open(path, "a") as file:
        file.write("red/3.png,dog,\n")
    state = session.state("p")
    assert state["remarks"] == [
        f"{config.labels} was changed by another program; its changes are shown"
    ]
    assert {each["name"]: each["count"] for each in state["classes"]} == {"cat": 2, "dog": 1}


def test_several_classes_a_picture(config, opened):
    single = Session(config, opened)
    single.claim("p", force=False)
    with pytest.raises(ConfigError, match="start cpc-tf label with --multi_label"):
        single.label("p", [0], "add", "cat", "person")
    session = Session(replace(config, multi_label=True), opened)
    session.claim("p", force=False)
    for index, picture in enumerate(session.all(0, 48, "")["pictures"]):
        session.label("p", [picture["index"]], "add", picture["file"].partition("/")[0], "person")
        if index % 4 == 0:
            session.label("p", [picture["index"]], "add", "fourth", "person")
    session.label("p", [0], "none", "", "person")
    session.label("p", [1], "remove", "blue", "person")
    state = settled(session)
    assert state["labelled"] == 47
    assert session.table.of[opened.pictures.names[0]].classes == ()
    assert "mean average precision" in state["figures"]["sentence"]
    with pytest.raises(
        ConfigError, match="has images with several classes or none: add --multi_label"
    ):
        Session(config, opened)


def test_accepted_guesses_are_no_labels_of_people():
    labels = {f"{i}": Label(("ab"[i % 2],), "model" if 4 <= i < 6 else "person") for i in range(8)}
    given = guesses.labelled(labels, [*labels], ["a", "b"], False, np.arange(8))
    assert given.by_person.tolist() == [True] * 4 + [False] * 2 + [True] * 2
    # the sample ends where people labelled less than 0.9 of it
    assert given.drawn.tolist() == [True] * 4 + [False] * 4
    assert given.labels.tolist() == [0, 1] * 4


def test_page_says_which_encoder_guesses(config, folder, tmp_path):
    modules.write_module(tmp_path / "module")
    several = replace(config, encoder=f"{tmp_path}/module,pixels", image_size=16)
    encoder = open_encoder(several.encoder, image_size=16)
    session = Session(several, open_gallery(encoder, str(folder), 8, lambda line: None))
    session.claim("p", force=False)
    give(session, session.next(16)["pictures"])
    remarks = settled(session)["remarks"]
    assert [remark.split()[-1] for remark in remarks if "taken" in remark] == ["taken"]
    assert sum("%" in remark for remark in remarks) == 3  # each, and both side by side
    assert len(session.surest(session.all(0, 1, "")["pictures"][0]["guess"], 3)["pictures"]) == 3
    tuning = session._encoder()
    assert tuning in several.encoder.split(",")


def test_the_commands_are_those_of_the_session():
    own = LabelConfig(pictures="my pictures/train/", labels="l.csv", encoder="pixels")
    told = commands(own, ["other", "cat"], 600, is_measured=True, encoder="pixels")
    first = (
        "cpc-tf classify '--labelled=my pictures/train/' --labels=l.csv --ambiguous_folders=classes"
        " --encoder=pixels '--workdir=runs/my pictures/classify' '--pictures=my pictures/train/'"
        " '--output=runs/my pictures/predictions.csv'"
    )
    assert told["commands"][0]["command"] == first
    assert [each["command"].split()[1] for each in told["commands"]] == [
        "classify",
        "predict",
        "export",
        "efficient",
    ]
    assert commands(own, ["cat"], 1, is_measured=False, encoder="pixels")["remarks"] == [
        "A classifier needs images of at least two classes."
    ]
