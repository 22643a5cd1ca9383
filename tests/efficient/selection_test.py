import numpy as np
import pytest

from cpc_tf.efficient.config import EfficientConfig, SearchConfig
from cpc_tf.efficient.selection import DIVERGED, best, trials
from cpc_tf.settings import ConfigError, replace

GIVEN = {"learning_rate": 0.3, "weight_decay": 0.5, "dropout": 0.25, "batch_size": 7}


def searched(**changes):
    return trials(replace(EfficientConfig(), **{**GIVEN, "search_trials": 200, **changes}))


def test_what_is_given_comes_first():
    assert searched(search_trials=1) == [GIVEN]
    assert searched()[0] == GIVEN


def test_draws_fill_the_papers_space():
    drawn = searched()[1:]
    values = {name: np.array([trial[name] for trial in drawn]) for name in GIVEN}
    assert set(values["learning_rate"]) == {0.05, 0.1, 0.2}
    assert set(values["batch_size"]) == {7, 14}
    decay = np.log10(values["weight_decay"])
    assert -5 <= decay.min() < -4.8
    assert -2.2 < decay.max() <= -2
    assert np.median(decay) == pytest.approx(-3.5, abs=0.4)  # logarithmically
    assert values["dropout"].min() < 0.05
    assert 0.93 < values["dropout"].max() < 1
    assert all(type(trial["batch_size"]) is int for trial in drawn)


def test_a_draw_depends_on_seed_and_number_alone():
    assert searched(search_trials=5) == searched()[:5]
    assert searched(seed=1)[1] != searched()[1]
    assert len({str(trial) for trial in searched()}) == 200


def test_the_backbone_is_drawn_if_there_are_several():
    names = ["resnet200_v2", "resnet50_v2", "resnet101_v2"]
    drawn = searched(encoder="pixels", backbone=",".join(names))
    assert drawn[0] == {**GIVEN, "backbone": "resnet200_v2"}
    assert {trial["backbone"] for trial in drawn} == set(names)
    # The other draws are those of a search with one backbone.
    assert [{name: trial[name] for name in GIVEN} for trial in drawn] == searched()


def test_the_best_has_most_right_and_among_equals_the_least_loss():
    found = [(0.5, 0.1), (0.7, 0.9), (0.7, 0.8), (0.6, 0.0)]
    records = [{"held_out_top1": top1, "held_out_loss": loss} for top1, loss in found]
    assert best(records) == 2
    assert best([DIVERGED, *records, DIVERGED]) == 3


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        ("backbone", "resnet50_v2,resnet", "must be of .*resnet50_v2"),
        ("backbone", "small,tiny", "several are for --encoder=pixels"),
    ],
)
def test_backbones_that_are_none_or_too_many_are_refused(flag, value, why):
    with pytest.raises(ConfigError, match=f"--{flag}={value}: {why}"):
        replace(EfficientConfig(), encoder="random", **{flag: value})


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("search_rates", "0.1;0.2"),
        ("search_decays", "0,1e-2"),
        ("search_decays", "1e-5"),
        ("search_dropouts", "1,0"),
        ("search_multiples", "many"),
        ("search_multiples", "16,0"),
        ("search_encoder_rates", "x"),
    ],
)
def test_lists_that_make_no_sense_are_refused_by_name(flag, value):
    with pytest.raises(ConfigError, match=f"--{flag}={value}"):
        SearchConfig(**{flag: value})
