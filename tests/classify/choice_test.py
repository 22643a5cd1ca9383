"""Which of several encoders is taken, and that what is stated of it is honest."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cpc_tf.classify import choice, logistic
from cpc_tf.classify.advice import another_encoder
from cpc_tf.classify.logistic import Forecast, LabelledFeatures
from cpc_tf.core.settings import ConfigError
from cpc_tf.encoders.card import parted
from cpc_tf.encoders.side_by_side import open_encoders
from cpc_tf.evaluation.label_kinds import MULTI_LABEL, SINGLE_LABEL


class Named:
    """Stands for an encoder."""

    def __init__(self, path, parameters=1):
        self.path = path
        self.parameters = parameters


def candidate(path, features, labels):
    classes = labels.shape[1] if labels.ndim > 1 else labels.max() + 1
    groups = np.arange(len(labels))
    examples = LabelledFeatures(features.astype(np.float32), labels, groups, classes)
    return choice.Candidate(Named(path), examples)


def of_classes(labels, spread, seed, width=40):
    """Features around a centre for each class."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=[labels.max() + 1, width])
    return centres[labels] + spread * random.normal(size=[len(labels), width])


def test_smaller_is_taken_within_the_noise():
    losses = np.random.default_rng(0).exponential(size=60)
    slightly = losses - 0.01 + np.tile([0.1, -0.1], 30)
    clearly = losses - 0.5
    groups = np.arange(60)
    assert slightly.mean() < losses.mean()
    assert choice.smallest_of_best(np.stack([losses, slightly]), groups) == 0
    assert choice.smallest_of_best(np.stack([losses, slightly, clearly]), groups) == 2


def test_images_of_a_group_are_one_measurement():
    random = np.random.default_rng(0)
    gaps = random.normal(size=50)
    mean, error = choice.difference(gaps, np.zeros(50), np.arange(50))
    twice = choice.difference(np.tile(gaps, 2), np.zeros(100), np.tile(np.arange(50), 2))
    assert twice == pytest.approx((mean, error))
    assert error == pytest.approx(gaps.std() / np.sqrt(50 / logistic.INFLATION))


@pytest.mark.parametrize("several", [False, True], ids=["single-label", "multi-label"])
def test_better_encoder_is_taken_again_by_the_seed(several):
    labels = np.repeat([0, 1, 2], 10)
    kind = MULTI_LABEL if several else SINGLE_LABEL
    truth = np.eye(3, dtype=np.float32)[labels] if several else labels
    random = np.random.default_rng(2)
    every = [
        candidate("noise", random.normal(size=[30, 40]), truth),
        candidate("good", of_classes(labels, 0.5, 1), truth),
    ]
    taken = choice.choose(every, every[0].encoder, kind, seed=3)
    again = choice.choose(every, every[0].encoder, kind, seed=3)
    assert taken.candidate.encoder.path == "good"
    np.testing.assert_array_equal(taken.accuracy.validated.logits, again.accuracy.validated.logits)
    lines = choice.described([one._asdict() for one in taken.compared], kind)
    assert ["worse" in lines[1], "taken" in lines[2]] == [True, True]


def test_best_of_many_by_chance_is_not_stated():
    """Labels at random: the best of six encoders names more than half; what is stated does not."""
    stated = []
    best = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        labels = random.permutation(np.repeat([0, 1], 20))
        every = [candidate(str(n), random.normal(size=[40, 4]), labels) for n in range(6)]
        taken = choice.choose(every, every[0].encoder, SINGLE_LABEL, seed=seed)
        best.append(max(one.score for one in taken.compared))
        stated.append(taken.accuracy.score(SINGLE_LABEL, labels)["top1"])
    assert np.mean(best) > 0.58
    assert np.mean(stated) < 0.54


def test_too_few_labels_take_the_first_encoder():
    labels = np.array([0, 1, 0, 1])
    random = np.random.default_rng(0)
    every = [candidate(name, random.normal(size=[4, 5]), labels) for name in ("small", "large")]
    taken = choice.choose(every, every[1].encoder, SINGLE_LABEL)
    assert (taken.candidate.encoder.path, taken.accuracy) == ("large", None)


def test_encoders_side_by_side_count_alike():
    labels = np.repeat([0, 1, 2], 12)
    wide = of_classes(labels, 1.0, 1, width=60)
    narrow = 1e-3 * of_classes(labels, 1.0, 2, width=6)
    both = logistic.side_by_side(
        [candidate("", features, labels).examples for features in (wide, narrow)]
    )
    scaled = []
    for features in (wide, narrow):
        standard = (features - features.mean(0)) / features.std(0)
        scaled.append(standard / np.sqrt(2 * features.shape[1]))
    scaled = np.concatenate(scaled, 1)
    theirs = LogisticRegression(C=3.0, max_iter=1000, tol=1e-8).fit(scaled, labels)
    logits = logistic.fit(both, 3.0).logits(both.features)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(shares, theirs.predict_proba(scaled), atol=2e-3)


@pytest.mark.parametrize(
    ("top1", "high", "gain", "tested", "is_told"),
    [
        (0.39, 0.5, 0.03, 120, True),
        (0.39, 0.5, 0.03, 12, False),
        (0.95, 0.99, 0.01, 120, False),
        (0.6, 0.7, 0.2, 120, False),
    ],
)
def test_bad_features_are_told_with_a_command(top1, high, gain, tested, is_told):
    score = {"top1": top1, "top1_high": high, "largest_class": 0.1, "tested": tested}
    lines = another_encoder(score, Forecast(gain, gain, gain / 9), 120, "imagenette_128px")
    wanted = "--encoder=imagenette_128px,keras:EfficientNetV2B0"
    assert [wanted in line for line in lines] == [True] * is_told


def test_commas_separate_encoders_but_not_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b").mkdir()
    assert (parted("a,b"), parted("-1..1:a,b")) == (["a,b"], ["-1..1:a,b"])
    assert parted("keras:X:f.h5, pixels") == ["keras:X:f.h5", "pixels"]
    with pytest.raises(ConfigError, match="twice"):
        open_encoders("pixels,pixels")
