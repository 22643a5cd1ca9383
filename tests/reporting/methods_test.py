"""Which results belong together."""

import pytest

from cpc_tf.reporting import methods
from cpc_tf.reporting.collect import Run
from cpc_tf.reporting.methods import Method
from tests.reporting import samples


def _linear(encoder, directory="", **more):
    return Run(samples.linear(encoder, **more), "x", directory)


def test_datasets():
    names = {"photos/15200": "photos", "photos": "photos", "folder:/data/sets/birds/": "birds", "cifar10": "cifar10",
             "imagenet_resized/64x64": "imagenet_resized/64x64", "folder:": "folder:", "voc:/data/cells": "cells",
             "voc/2007": "voc/2007"}  # fmt: skip
    assert {dataset: methods.dataset_name(dataset) for dataset in names} == names


def test_seeds_are_one_method():
    runs = [_linear(f"runs/small/{seed}/hub") for seed in ("0", "1", "seed2", "seed_3")]
    assert list(methods.by_method(runs)) == [Method("cpc", "runs/small/hub")]
    assert methods.method(_linear("random:runs/small/7/hub")) == Method("random", "runs/small/hub")
    assert methods.method(_linear("pixels")) == Method("pixels", "")
    assert methods.method(_linear("runs/labels/hub", features="supervised")) == Method("supervised", "runs/labels/hub")


def test_titles_tell_apart():
    alone = [Method("cpc", "runs/photos/hub"), Method("pixels", "small")]
    assert list(methods.titles(alone).values()) == ["CPC", "pixels"]
    two = [Method("cpc", "runs/a/x/hub"), Method("cpc", "runs/a/y/hub")]
    assert list(methods.titles(two).values()) == ["CPC (a/x)", "CPC (a/y)"]
    alike = [Method("cpc", "1st/a/x/hub"), Method("cpc", "2nd/a/x/hub")]
    assert list(methods.titles(alike).values()) == ["CPC (1st/a/x/hub)", "CPC (2nd/a/x/hub)"]


@pytest.mark.parametrize(
    ("run", "rung"),
    [
        (_linear("runs/ablation/3_bu/hub"), "BU"),
        (_linear("runs/ablation/1_v1/0/hub"), "v1"),
        (_linear("elsewhere/hub", "runs/ablation/8_PA/linear"), "PA"),
        (_linear("runs/ablation/3_pa/hub"), ""),  # the number is another rung's
        (_linear("runs/photos/hub"), ""),
        (_linear("x", rung="HP"), "HP"),
        (_linear("x", rung="nonsense"), ""),
    ],
)
def test_rungs(run, rung):
    assert methods.rung(run) == rung


def test_the_main_method_was_measured_at_most_fractions():
    def runs(encoder, *fractions):
        return [Run(samples.efficient(encoder, fraction), "x") for fraction in fractions]

    by_method = methods.by_method([*runs("a/hub", 0.1, 0.1, 0.1), *runs("b/hub", 0.1, 1.0), *runs("pixels", 0.5)])
    assert methods.main_method(by_method, "cpc").key == "b/hub"
    assert methods.main_method(by_method, "random") is None


def test_spread():
    assert methods.spread([0.2, 0.4, 0.3]) == (pytest.approx(0.3), 0.2, 0.4, 3)
    assert methods.spread([0.2, 0.4, 0.3]).half_range == pytest.approx(0.1)
