"""What is drawn: distributions, ranges, and the same numbers whatever draws them."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from cpc_tf import augment
from cpc_tf.augment.config import AugmentConfig
from cpc_tf.augment.operations import AUTOAUGMENT
from cpc_tf.augment.reference import COLOR_ORDERS

N = 20_000
FULL = AugmentConfig()
PRIMITIVES = list(AUTOAUGMENT)  # numbered 0..13


@pytest.fixture(scope="module")
def recipe():
    return augment.Recipe(*(x.numpy() for x in augment.draw(FULL, 3, 14, N, 80)))


def _p_uniform_choice(values, choices):
    return stats.chisquare(np.bincount(values.ravel(), minlength=choices)).pvalue


def test_choices_are_uniform(recipe):
    assert _p_uniform_choice(recipe.op, len(PRIMITIVES)) > 0.01
    assert (
        _p_uniform_choice(recipe.op[:, 0] * len(PRIMITIVES) + recipe.op[:, 1], len(PRIMITIVES) ** 2)
        > 0.01
    )
    assert _p_uniform_choice(recipe.order, len(COLOR_ORDERS)) > 0.01


def test_coins_have_their_probabilities_and_are_independent(recipe):
    coins = np.stack([recipe.elastic, recipe.histogram, recipe.distort, recipe.grey], 1)
    table = np.bincount(coins @ [8, 4, 2, 1], minlength=16)
    p = np.array([0.2, 0.2, 0.8, 0.25])
    bits = (np.arange(16)[:, None] >> [3, 2, 1, 0]) & 1
    assert stats.chisquare(table, N * np.prod(np.where(bits, p, 1 - p), axis=1)).pvalue > 0.01


def test_magnitudes_fill_their_range(recipe):
    for number, name in enumerate(PRIMITIVES):
        ((low, high),) = FULL.policy.bounds(name, 80)
        drawn = recipe.magnitude[recipe.op == number]
        if name == "posterize":
            assert set(np.floor(drawn)) == {4, 5, 6, 7, 8}
            assert _p_uniform_choice(drawn.astype(int) - 4, 5) > 0.01
        elif low == high:
            assert not drawn.any(), name
        else:
            assert stats.kstest(drawn, stats.uniform(low, high - low).cdf).pvalue > 0.01, name


def test_the_papers_ranges():
    ranges = {name: FULL.policy.bounds(name, 80)[0] for name in PRIMITIVES}
    assert ranges["translate_x"] == (-36, 36)
    assert ranges["rotate"] == (-30, 30)
    assert ranges["solarize"] == (0, 256)
    np.testing.assert_allclose(ranges["shear_y"], (-0.3, 0.3), rtol=1e-6)
    np.testing.assert_allclose(ranges["color"], (0.1, 1.9), rtol=1e-6)


def test_elastic_and_color_numbers(recipe):
    assert stats.kstest(recipe.displacement[:200].ravel(), stats.norm(0, 5).cdf).pvalue > 0.01
    assert stats.kstest(recipe.shear[:, 0], stats.uniform(-0.1, 0.2).cdf).pvalue > 0.01
    for column, (low, high) in zip(
        recipe.color.T, ((-32, 32), (0.5, 1.5), (-0.2, 0.2), (0.5, 1.5))
    ):
        assert stats.kstest(column, stats.uniform(low, high - low).cdf).pvalue > 0.01


def test_smoothed_curves_keep_their_slopes(recipe):
    slopes = np.diff(recipe.curve, axis=-1) * 4
    assert slopes.min() >= 0.5 - 1e-5
    assert slopes.max() <= 2 + 1e-5
    assert abs(recipe.curve[..., 0]).max() <= 0.1
    assert abs(recipe.curve[..., 4] - 1).max() <= 0.1 + 1e-6
    assert not recipe.jitter.any()
    assert (recipe.kept == -1).all()


def test_v1_jitters_and_greys_everything():
    recipe = augment.draw(AugmentConfig(augment="v1"), 0, 0, N, 64)
    margin, offset = recipe.jitter[:, 0].numpy(), recipe.jitter[:, 1:].numpy()
    assert set(margin) == {4}  # 60 of 64 px
    assert _p_uniform_choice(offset[:, 0] * 5 + offset[:, 1], 25) > 0.01
    assert recipe.grey.numpy().all()
    assert recipe.op.shape == (N, 0)
    assert not (recipe.elastic | recipe.histogram | recipe.distort).numpy().any()
    assert (recipe.kept.numpy() == -1).all()


def test_colour_drop_keeps_each_channel_as_often():
    probability = 0.4
    recipe = augment.draw(
        AugmentConfig(augment="colour_drop", augment_changes=f"drop_channels={probability}"),
        0,
        0,
        N,
        64,
    )
    counts = np.bincount(recipe.kept.numpy() + 1, minlength=4)
    assert stats.binomtest(int(counts[1:].sum()), N, probability).pvalue > 0.01
    assert stats.chisquare(counts[1:]).pvalue > 0.01
    assert not recipe.grey.numpy().any()


def test_same_key_gives_same_recipe_in_tf_data():
    dataset = tf.data.Dataset.range(20).map(
        lambda i: augment.draw(FULL, 7, i, 9, 16), num_parallel_calls=4
    )
    for i, mapped in enumerate(dataset):
        for eager, graph in zip(augment.draw(FULL, 7, i, 9, 16), mapped):
            np.testing.assert_allclose(eager, graph, rtol=1e-6)
