"""Which results belong together: what they state decides, never their paths."""

import pytest

from cpc_tf.results import methods
from tests.results import samples


def _linear(encoder, seed=0, trained_by="", **more):
    return samples.run(samples.linear(encoder, seed=seed, trained_by=trained_by, **more))


def _old(encoder, **more):
    """A result from before identities."""
    record = samples.linear(encoder, **more)
    del record["identity"]
    return samples.run(record)


def _names(runs):
    return [method.title for method in methods.methods(runs)]


def test_datasets():
    names = {"photos/15200": "photos", "photos": "photos", "folder:/data/sets/birds/": "birds", "cifar10": "cifar10",
             "imagenet_resized/64x64": "imagenet_resized/64x64", "folder:": "folder:", "voc:/data/cells": "cells",
             "voc/2007": "voc/2007"}  # fmt: skip
    assert {dataset: methods.dataset_name(dataset) for dataset in names} == names


def test_seeds_are_one_method():
    (own,) = methods.methods([_linear(f"runs/{name}/hub", seed) for seed, name in enumerate("abc")])
    assert len(own.runs) == 3
    one = [_linear("runs/a/hub", identity=samples.identity("x", 0), seed=seed) for seed in (0, 1)]
    (own,) = methods.methods([*one, _linear("runs/b/hub", identity=samples.identity("x", 1), seed=1)])
    assert len(own.runs) == 3


def test_encoders_of_one_seed_are_not_seeds():
    """Modules of 32 and of 64 px: the numbers in their paths were once taken for seeds."""
    names = _names([_linear("runs/32/hub"), _linear("runs/64/hub")])
    assert names == ["CPC v2 (runs/32/hub)", "CPC v2 (runs/64/hub)"]


def test_a_module_of_others_is_not_called_cpc():
    runs = [_linear("https://tfhub.dev/a/b/1", trained_by="unknown"), _old("https://tfhub.dev/a/b/1"), _old("x/hub")]
    for run in runs:
        (name,) = _names([run])
        assert "CPC" not in name
        assert methods.identity(run).trained_by == "unknown"
    assert _names([_old("x/mobile"), _old("y/efficient")]) == ["module (efficient)", "module (mobile)"]


def test_other_objectives_have_their_own_name():
    names = _names([_linear("a", trained_by="no such objective"), _linear("b"), _linear("c", trained_by="cpc+labels")])
    assert names[0] == "CPC v2"
    assert set(names[1:]) == {"CPC v2 and labels", "no such objective"}


@pytest.mark.parametrize(
    ("run", "trained_by"),
    [
        (_old("pixels"), "pixels"),
        (_old("random"), "untrained"),
        (_old("random:runs/hub"), "untrained"),
        (_old("runs/hub", features="CPC"), "cpc"),
        (_old("runs/hub", features="supervised"), "labels"),
        (_old("runs/hub", rung="BU"), "cpc"),
        (_old("runs/cpc/hub"), "unknown"),
        (_linear("runs/hub", trained_by="labels"), "labels"),
    ],
)
def test_old_records_are_what_they_state(run, trained_by):
    assert methods.identity(run).trained_by == trained_by


def test_titles_tell_apart():
    assert _names([_linear("runs/hub"), _linear("pixels")]) == ["CPC v2", "pixels"]
    large = {**samples.identity("x"), "architecture": "resnet50_v2"}
    other = {**samples.identity("x"), "dataset": "birds"}
    twice = {**samples.identity("x"), "began_with": "first"}
    assert _names([_linear("a"), _linear("b", identity=twice)]) == ["CPC v2", "CPC v2 (from first)"]
    assert _names([_linear("a"), _linear("b", identity=large)]) == ["CPC v2 (ResNet-50 v2)", "CPC v2 (small ResNet)"]
    assert _names([_linear("a"), _linear("b", identity=other)]) == ["CPC v2 (birds)", "CPC v2 (photos)"]


def test_methods_are_in_the_order_of_tables():
    encoders = (("pixels", ""), ("random", ""), ("c", "labels"), ("b", "rotation"), ("a", ""))
    found = methods.methods([_linear(encoder, trained_by=by) for encoder, by in encoders])
    assert [method.trained_by for method in found] == ["cpc", "rotation", "labels", "untrained", "pixels"]
    assert [method.pretrained for method in found] == [True, True, False, False, False]
    assert found[0].spread("top1").mean == 0.9


def test_architectures_have_readable_names():
    names = {"base_24px": "base 24px ResNet", "small": "small ResNet", "smaller_vit": "smaller_vit"}
    assert {name: methods.architecture(name) for name in names} == names
    assert methods.architecture("resnet200_v2") == "ResNet-200 v2"
