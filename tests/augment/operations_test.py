"""Policies are data: what a table of operations and a policy draw, how one is changed, and what
stays as it was.
"""

import hashlib

import numpy as np
import pytest

from cpc_tf import augment
from cpc_tf.augment import operations
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import OPERATIONS, POLICIES, Operation
from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError, to_flagfile
from tests.augment import samples

# What (policy, changes) drew in the release before the table of operations: hashes of the recipes
# of (seed, counter, patches, side) = KEYS.
KEYS = ((0, 7, 36, 80), (3, 123456, 25, 16))
RECORDED = {
    ("none", ""): ("696675726c64fdd2", "20c221ba2ee4fcbb"),
    ("v1", ""): ("65edf653ae196404", "fd0a1ce92d68314d"),
    ("colour_drop", ""): ("b2061bc6b709efa7", "e7cdf8327e99d403"),
    ("full", ""): ("de8a593989271ef3", "211f787c20500975"),
    ("small_patches", ""): ("7b03a04cd3a99bb2", "d68e467ccda7b7ed"),
    (
        "full",
        (
            "shear_x.limit=0.15,shear_y.limit=0.15,translate_x.limit=0.225,translate_y.limit=0.225,rotate.limit=15,"
            "solarize.lowest=128,posterize.fewest=6,contrast.spread=0.45,color.spread=0.45,brightness.spread=0.45,"
            "sharpness.spread=0.45"
        ),
    ): ("cb241248abb4eb34", "58c31ed796ab4858"),
    ("full", "autoaugment=0"): ("cc42f0286e5ee7d0", "d15775665a2bbce8"),
    ("full", "grey=0"): ("0a3cecdde5f294fd", "1787e1cf6b924a32"),
    (
        "full",
        (
            "autoaugment=3,elastic=0.5,elastic.sigma=0.1,elastic.shear=0.3,histogram=0.5,histogram.shift=0.2,"
            "histogram.slope=3,distort=0.3,distort.brightness=0.2,distort.saturation=0.3,distort.contrast=0.4"
        ),
    ): ("1173047342160842", "8051dcb6b7dd58d5"),
    ("v1", "jitter.margin=0.25"): ("07fc626dc1df4350", "08e6940864596b41"),
    ("colour_drop", "jitter.margin=0.1,drop_channels=0.4"): (
        "a44c2e6f60a65c77",
        "663c9e4fdcc4f686",
    ),
}


def _digest(config, key):
    digest = hashlib.sha256()
    for field in augment.draw(config, *key):
        digest.update(np.ascontiguousarray(field.numpy()).tobytes())
    return digest.hexdigest()[:16]


def _parse(*flags):
    return cli.parse(AugmentConfig, list(flags))


@pytest.fixture
def throw_away():
    """A primitive that was not there before, which C++ does not know, before all others."""
    old = dict(OPERATIONS)
    OPERATIONS.clear()
    OPERATIONS["swap"] = Operation(
        "swap", 14, lambda patches, magnitude: patches[..., ::-1], native=False
    )
    OPERATIONS.update(old)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(old)


def test_recipes_are_those_of_the_release_before():
    for (name, changes), drawn in RECORDED.items():
        config = AugmentConfig(augment=name, augment_changes=changes)
        assert tuple(_digest(config, key) for key in KEYS) == drawn, (name, changes)


@pytest.mark.usefixtures("throw_away")
def test_an_operation_that_is_added_changes_no_policy():
    test_recipes_are_those_of_the_release_before()


@pytest.mark.usefixtures("throw_away")
def test_an_operation_that_is_added_can_be_used():
    config = _parse("--augment=full", "--augment_changes=autoaugment=1,swap=1")
    recipe = augment.draw(config, 0, 0, 2000, 16)
    assert set(recipe.op.numpy().ravel()) == set(range(15))
    # C++ does not have it.
    assert config.engine == "reference"
    with pytest.raises(
        ConfigError, match="^--augment_engine=native: has no swap, which --augment=full uses"
    ):
        _parse("--augment_changes=swap=1", "--augment_engine=native")
    patches = samples.patches(16)
    config = AugmentConfig(augment="none", augment_changes="autoaugment=1,swap=1")
    got = augment.apply(patches, augment.draw(config, 0, 0, len(patches), 16), config.engine)
    np.testing.assert_array_equal(got, patches[..., ::-1])


def test_policies_are_in_the_order_of_application():
    for policy in POLICIES.values():
        steps = [
            entry for entry in policy if entry in OPERATIONS and not OPERATIONS[entry].primitive
        ]
        assert steps == sorted(steps, key=lambda entry: OPERATIONS[entry].number)
        assert operations.parse_changes(operations.to_text(policy)) == policy


def test_settings_as_text_come_back():
    config = AugmentConfig(
        augment="v1", augment_changes="distort=0.5,distort.hue=0.1", augment_engine="native"
    )
    assert cli.parse(AugmentConfig, to_flagfile(config).splitlines()) == config
    assert (config.title, config.engine) == ("v1 with distort=0.5,distort.hue=0.1", "native")


def test_policy_chooses_among_the_added_primitives():
    both = _parse("--augment=v1", "--augment_changes=autoaugment=2,solarize=1,invert=1")
    assert [each.name for each in both.policy.among] == ["invert", "solarize"]  # by their numbers
    recipe = augment.draw(both, 0, 0, 100, 16)
    assert set(recipe.op.numpy().ravel()) == {
        OPERATIONS["invert"].number,
        OPERATIONS["solarize"].number,
    }


@pytest.mark.parametrize(
    ("policy", "changes", "grey"),
    [
        ("v1", "", True),
        ("v1", "grey=0.9", False),
        ("none", "grey=1", True),
        ("colour_drop", "", False),
    ],
)
def test_a_test_is_grey_if_all_patches_were(policy, changes, grey):
    """Without jitter, dropped channels and whatever else is random."""
    pixels = np.uint8([[[[255, 0, 0], [0, 255, 0], [7, 7, 7]]]])
    shown = augment.at_test(pixels, AugmentConfig(augment=policy, augment_changes=changes).policy)
    # 0.2989 and 0.587 of 255
    wanted = np.uint8([[[[76] * 3, [150] * 3, [7] * 3]]]) if grey else pixels
    np.testing.assert_array_equal(shown, wanted)
