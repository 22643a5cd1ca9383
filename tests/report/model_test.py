"""The sentence that a dataset opens with: which model, which rival, and in whole images."""

import pytest

from cpc_tf.report.model import best, lead
from tests.report import samples

pytestmark = [pytest.mark.drawn, pytest.mark.usefixtures("undrawn")]


def _first(*records):
    return lead([samples.run(record) for record in records]).sentences[0]


@pytest.mark.parametrize(
    ("rivals", "sentence"),
    [
        ([], "With 100 labels it names 68 of 100 new images right."),
        ([samples.efficient("pixels", top1=0.512)],
         "With 100 labels it names 68 of 100 new images right; the same without pre-training 51."),
        # With other labels, of another task: no rival.
        ([samples.efficient("pixels", 0.2, top1=0.6),
          samples.linear("pixels", 0.6, num_train_labels=100)],
         "With 100 labels it names 68 of 100 new images right."),
        # A network untrained is the rival only where none learned from the labels alone.
        ([samples.efficient("pixels", top1=0.4), samples.efficient("random", top1=0.5)],
         "With 100 labels it names 68 of 100 new images right; the same without pre-training 40."),
    ],
)  # fmt: skip
def test_a_rival_differs_in_pre_training_alone(rivals, sentence):
    assert _first(samples.efficient(top1=0.68), *rivals) == sentence


def test_of_few_pictures_the_sentence_counts_them():
    few = samples.linear("runs/hub", 0.65, num_train_labels=1, tested=20)
    random = samples.linear("random", 0.5, num_train_labels=1, tested=20)
    assert (
        _first(few, random)
        == "With 1 label it names 13 of 20 new images right; the same without pre-training 10."
    )
    refit = {**few, "refit": {"num_train_labels": 21}}
    sentences = " ".join(lead([samples.run(refit)]).sentences)
    assert "only 20 test images" in sentences
    assert "trained again on all 21 labels" in sentences


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (samples.detect(map11=0.5),
         "It finds the objects on new images with a mean average precision of 50 of 100."),
        (samples.detect(best_f1={"score": 0.6, "right": 3, "boxes": 4, "objects": 6,
                                 "precision": 0.75, "recall": 0.5}),
         "It finds 50 of 100 objects on new images, and 75 of 100 boxes that it draws are right."),
        (samples.pretrain(), "An encoder was trained on 100 images without labels."),
        ({**samples.linear(), "multi_label": True, "map": 0.6, "top1": None,
          "classes": {"cat": {"tested": 10, "predicted": 8, "right": 6}}},
         "With 1,000 labels it finds 60 of 100 things that new images show, "
         "and 75 of 100 that it names are there."),
    ],
)  # fmt: skip
def test_other_tasks(record, sentence):
    assert _first({name: value for name, value in record.items() if value is not None}) == sentence


def test_the_best_of_several_encoders_is_named():
    records = [
        samples.linear(f"x/{name}", top1, trained_by="unknown")
        for name, top1 in (("lite0", 0.9), ("b1", 0.8))
    ]
    found = lead([samples.run(record) for record in records])
    assert "This is the best of 2 encoders, lite0; the others stand below." in found.sentences


def test_best_model_is_pretrained_if_there_is_one():
    runs = [
        samples.run(samples.linear(encoder, top1))
        for encoder, top1 in (("pixels", 0.9), ("hub", 0.5), ("random", 0.8))
    ]
    assert best(runs)["encoder"] == "hub"
    assert best(runs[::2])["encoder"] == "pixels"
    assert best([]) is None
