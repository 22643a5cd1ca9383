"""The settings of each objective in a comparison: those of its paper at its paper's size."""

import pytest

from cpc_tf.compare.methods import METHODS, PAPER, SHORT, TRIALS, training_flags
from cpc_tf.core import cli
from cpc_tf.core.settings import flatten
from cpc_tf.objectives.config import OBJECTIVES, settings_class
from cpc_tf.pretrain.config import PretrainConfig

IMAGENET = 1_281_167
# Settings that follow from the size of the network, not from the data or the length.
OF_NETWORK = {"byol_hidden", "vicreg_dim", "amdim_dim", "exemplar_dim"}


def settings(objective, trial, images=9469, steps=1000, side=64):
    config = cli.parse(PretrainConfig, training_flags(objective, trial, images, steps, side))
    return flatten(config)


def test_all_objectives_are_compared():
    assert set(METHODS) == set(OBJECTIVES)


@pytest.mark.parametrize("objective", METHODS)
def test_paper_settings_at_its_size_are_the_defaults(objective):
    values = settings(objective, PAPER, images=IMAGENET, steps=1_000_000)
    defaults = flatten(settings_class(objective)())
    if objective == "cpc":  # the grid of a small image has fewer rows
        defaults = {name: defaults[name] for name in ("directions", "target_dim", "emb_scale")}
    for name in defaults.keys() - OF_NETWORK:
        assert values[name] == pytest.approx(defaults[name], rel=0.01), name


@pytest.mark.parametrize("trial", TRIALS)
@pytest.mark.parametrize("objective", METHODS)
def test_few_images_are_enough(objective, trial):
    assert settings(objective, trial, images=40)["batch_size"] <= 40


@pytest.mark.parametrize("trial", TRIALS)
def test_relative_position_sees_gaps_and_no_mirror_image(trial):
    values = settings("relative_position", trial)
    assert values["patch_stride"] > values["patch_size"]
    assert not values["mirror"]


@pytest.mark.parametrize("objective", ["instance", "moco", "byol", "vicreg", "pirl", "exemplar"])
def test_two_views_differ_in_grey_and_hue(objective):
    for trial in TRIALS:
        changes = settings(objective, trial)["augment_changes"]
        assert "grey=0.2" in changes
        assert "distort.hue=" in changes


def test_copies_follow_faster_in_shorter_trainings():
    momenta = [settings("moco", SHORT, steps=n)["moco_momentum"] for n in (100, 2000, 10**6)]
    assert momenta == pytest.approx([0.9, 0.98, 0.999])
