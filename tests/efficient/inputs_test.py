"""Which labels may be seen, and what follows from their number and from the encoder's card."""

import json

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError, open_settings, replace
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.draws import rarest
from cpc_tf.efficient.config import EfficientConfig, LabelsConfig
from cpc_tf.efficient.inputs import (
    Labels,
    choose_labels,
    from_encoder,
    from_labels,
    loss_of_guessing,
)
from cpc_tf.encoders.card import FILE, EncoderCard, Training
from cpc_tf.encoders.config import EncoderConfig

# Class 0 has 100 labels, class 1 has 30, class 2 has 7.
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [100, 30, 7]))
NAMES = ("plenty", "some", "few")


def choose(names=NAMES, seed=0, **settings):
    return choose_labels(LABELS, names, LabelsConfig(**settings), seed)


def counts(indices):
    return np.bincount(LABELS[indices], minlength=3).tolist()


@pytest.mark.parametrize(
    ("given", "wanted", "fraction"),
    [
        *(({"label_fraction": 0.1}, [10, 3, 1], 0.1), ({"label_fraction": 0.29}, [29, 9, 2], 0.29)),
        *(({}, [100, 30, 7], 1), ({"labels_per_class": 5}, [5, 5, 5], 15 / 137)),
    ],
)
def test_each_class_gives_its_part(given, wanted, fraction):
    labels = choose(**given)
    assert counts(labels.chosen) == wanted
    assert np.array_equal(labels.chosen, np.unique(labels.chosen))
    assert labels.fraction == fraction


def test_smaller_fractions_are_subsets_and_seeds_differ():
    parts = [
        set(choose(label_fraction=fraction, seed=3).chosen)
        for fraction in (0.1, 0.2, 0.29, 0.5, 1.0)
    ]
    assert all(small < large for small, large in zip(parts, parts[1:]))
    one, other = (choose(label_fraction=0.5, seed=seed).chosen for seed in (0, 1))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(one, choose(label_fraction=0.5, seed=0).chosen)


def test_class_without_a_label_is_refused_with_advice():
    with pytest.raises(
        ConfigError, match="--label_fraction=0.05: leaves none of the 7 labels of class few"
    ) as error:
        choose(label_fraction=0.05)
    least = float(str(error.value).split("use at least ")[1].split(",")[0])
    assert counts(choose(label_fraction=least).chosen)[2] == 1
    with pytest.raises(ConfigError, match=r"--labels_per_class=8: class few has only 7"):
        choose(labels_per_class=8)
    for settings in ({}, {"labels_per_class": 1}):
        with pytest.raises(ConfigError, match="class nothing has no examples"):
            choose((*NAMES, "nothing"), **settings)


def test_held_out_labels_are_disjoint_covering_each_class():
    labels = choose(label_fraction=0.5, held_out=0.2)
    assert counts(labels.held_out) == [10, 3, 1]
    assert not set(labels.fit) & set(labels.held_out)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([labels.fit, labels.held_out])), labels.chosen
    )
    few = choose(labels_per_class=2, held_out=0.1)
    assert counts(few.fit) == counts(few.held_out) == [1, 1, 1]


@pytest.mark.parametrize("settings", [{"labels_per_class": 1, "held_out": 0.2}, {"held_out": 0.0}])
def test_single_labels_or_zero_share_hold_out_nothing(settings):
    labels = choose(**settings)
    assert labels.fit is labels.held_out is None
    assert json.loads(labels.to_json()) == {"chosen": labels.chosen.tolist(), "held_out": []}


class TestMultiLabel:
    """Images with any number of labels: each counts for its rarest."""

    random = np.random.default_rng(5)
    labels = (random.random([400, 4]) < [0.5, 0.2, 0.05, 0.02]).astype(np.float32)

    def choose(self, seed=0, labels=None, **settings):
        return choose_labels(
            self.labels if labels is None else labels, tuple("abcd"), LabelsConfig(**settings), seed
        )

    def test_one_label_each_is_chosen_as_ever(self):
        one_hot = np.eye(3, dtype=np.float32)[LABELS]
        np.testing.assert_array_equal(rarest(one_hot), LABELS)
        for settings in ({"label_fraction": 0.5}, {"labels_per_class": 5}):
            several, single = (
                choose_labels(one_hot, NAMES, LabelsConfig(**settings), 1),
                choose(seed=1, **settings),
            )
            for one, other in zip(several[:3], single[:3]):
                np.testing.assert_array_equal(one, other)

    def test_classes_that_are_taken_first_leave_the_rest(self):
        # Class 1 has the fewest; of what is left then, class 0 has fewer than class 2.
        labels = np.array(
            [[1, 1, 1], [1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1], [0, 0, 0]]
        )
        assert rarest(labels).tolist() == [1, 0, 0, 2, 2, 2, 3]

    def test_each_class_gives_nearly_its_part(self):
        labels = self.choose(label_fraction=0.25, held_out=0.2)
        for part, share in ((labels.chosen, 0.25), (labels.held_out, 0.05), (labels.fit, 0.2)):
            wanted = share * self.labels.sum(0)
            np.testing.assert_allclose(self.labels[part].sum(0), wanted, atol=3.5)
        assert set(labels.fit) | set(labels.held_out) == set(labels.chosen)
        assert not set(labels.fit) & set(labels.held_out)

    def test_smaller_parts_lie_in_larger_ones(self):
        parts = [
            set(self.choose(3, label_fraction=fraction).chosen)
            for fraction in (0.25, 0.3, 0.5, 1.0)
        ]
        assert all(small < large for small, large in zip(parts, parts[1:]))
        parts = [set(self.choose(3, labels_per_class=count).chosen) for count in (1, 2, 20, 1000)]
        assert all(small < large for small, large in zip(parts, parts[1:]))
        assert len(parts[0]) == 5  # four classes, and an image without a label

    def test_a_class_without_a_label_is_an_error_that_names_it(self):
        rare = self.labels.copy()
        rare[np.flatnonzero(rare[:, 3])[1:], 3] = 0
        with pytest.raises(
            ConfigError, match=r"--label_fraction=0.1: leaves none of the 1 labels of class d"
        ):
            self.choose(labels=rare, label_fraction=0.1)
        assert self.choose(labels=rare, labels_per_class=3).held_out is not None  # of d none
        with pytest.raises(ConfigError, match=r"class d has no examples"):
            self.choose(labels=rare * [1, 1, 1, 0])


GEOMETRY = GeometryConfig(resize=144, image_size=128, patch_size=32, patch_stride=24)


@pytest.fixture
def module(tmp_path):
    """The folder of a module of which only the card is there."""
    (tmp_path / FILE).write_text(
        json.dumps(
            EncoderCard(
                EncoderConfig(encoder="base"), GEOMETRY, Training(objective="cpc"), 1024, 9
            ).to_json()
        )
    )
    return str(tmp_path)


def labels(count):
    return Labels(
        np.arange(count), np.arange(count * 4 // 5), np.arange(count * 4 // 5, count), 1.0
    )


@pytest.mark.parametrize(
    ("flags", "sizes", "told"),
    [
        ({}, (144, 128), "from the encoder's card: --resize=144 --image_size=128"),
        ({"image_size": 64}, (72, 64), "from the encoder's card: --resize=72"),
        ({"resize": 100}, (100, 100), "from the encoder's card: --image_size=100"),
        ({"resize": 256, "image_size": 224}, (256, 224), ""),
        (
            {"encoder": "pixels"},
            (256, 224),
            "from the paper, since --encoder has no card: --resize=256 --image_size=",
        ),
    ],
)
def test_sizes_default_to_the_encoder(module, flags, sizes, told):
    config, line = from_encoder(replace(EfficientConfig(), **{"encoder": module, **flags}))
    assert (config.images.resize, config.images.image_size) == sizes
    assert line.startswith(told)
    assert bool(line) == bool(told)


@pytest.mark.parametrize(
    ("count", "flags", "told"),
    [
        (
            80,
            {},
            (
                "from 80 labels: --head_blocks=2 --head_width=512 --stop_at_loss=0.46"
                " --cached_views=16 --batch_size=64 --train_epochs=400"
            ),
        ),
        (
            80,
            {"train_steps": 9},
            "from 80 labels: --head_blocks=2 --head_width=512 --cached_views=16 --batch_size=64",
        ),
        (
            80,  # of images of one's own: a preset's length is the most
            {"train_steps": 9, "labelled": "x", "head_width": 64, "cached_views": 2},
            "from 80 labels: --stop_at_loss=0.46 --batch_size=64",
        ),
        (
            20,
            {"head_width": 64, "patience": 1},
            "from 20 labels: --cached_views=16 --batch_size=16 --train_epochs=400",
        ),
        (
            950,
            {"train_steps": 9, "encoder": "pixels"},
            "from 950 labels: --head_width=512 --cached_views=0 --batch_size=64",
        ),
        (
            950,
            {"train_steps": 9, "head_blocks": 0},
            "from 950 labels: --head_width=512 --cached_views=8 --batch_size=64",
        ),
        (
            20_000,
            {"batch_size": 512, "cached_views": 3},
            "from 20000 labels: --head_blocks=11 --head_width=4096 --train_epochs=100",
        ),
    ],
)
def test_batch_length_and_classifier_follow_from_the_labels(count, flags, told):
    settings = replace(EfficientConfig(), **{"encoder": "random", **flags})
    config, line = from_labels(settings, labels(count), replicas=1, guess=np.log(10))
    assert line == told
    assert {*open_settings(replace(config, resize=9, image_size=8, head_blocks=1))} <= {
        "stop_at_loss"
    }


def test_a_guess_knows_how_frequent_the_classes_are():
    assert loss_of_guessing(np.repeat([0, 1, 2, 3], 5)) == pytest.approx(np.log(4))
    one, other = np.array([1, 0, 0, 0]), np.array([0, 0, 1, 1])
    entropies = [loss_of_guessing(labels) for labels in (one, other)]
    assert entropies == pytest.approx([0.5623, np.log(2)], abs=1e-4)
    assert loss_of_guessing(np.stack([one, other], 1).astype(np.float32)) == pytest.approx(
        np.mean(entropies)
    )
    assert loss_of_guessing(np.zeros(3, np.int64)) == 0


def test_batch_covers_cached_views_and_divides_among_replicas():
    """That a larger one is refused is a row of tests/refusals_test.py."""
    config = replace(EfficientConfig(), encoder="random", batch_size=64, cached_views=4)
    from_labels(config, labels(20), 1, guess=1.0)  # 64 features of 16 images
    assert (
        from_labels(replace(config, batch_size=0), labels(5), 4, guess=1.0)[0].training.batch_size
        == 4
    )
