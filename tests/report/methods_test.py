"""Which results belong together: what they state decides, never their paths."""

import pytest

from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import leaves
from cpc_tf.report import methods
from cpc_tf.report.runs import Run
from tests.report import samples


def _linear(encoder, seed=0, trained_by="", **more):
    return samples.run(samples.linear(encoder, seed=seed, trained_by=trained_by, **more))


def _names(runs):
    return [method.title for method in methods.methods(runs)]


def test_the_least_independent_pictures_of_several_seeds_count():
    runs = [
        _linear("runs/a/hub", 0, tested=60),
        _linear("runs/b/hub", 1, tested=60, effective=10.0),
    ]
    (own,) = methods.methods(runs)
    found = own.spread("top1")
    assert (found.tested, found.independent) == (60, 10)


def test_seeds_are_one_method():
    (own,) = methods.methods([_linear(f"runs/{name}/hub", seed) for seed, name in enumerate("abc")])
    assert len(own.runs) == 3
    one = [_linear("runs/a/hub", identity=samples.identity("x", 0), seed=seed) for seed in (0, 1)]
    (own,) = methods.methods(
        [*one, _linear("runs/b/hub", identity=samples.identity("x", 1), seed=1)]
    )
    assert len(own.runs) == 3


def _other(seed=0, **more):
    """A run whose encoder's identity says something else."""
    return _linear("b", identity={**samples.identity("x", seed), **more})


def _theirs(name):
    run = _linear(name, trained_by="unknown")
    run["identity"]["module"] = name if "://" in name else run["identity"]["module"]
    return run


@pytest.mark.parametrize(
    ("runs", "titles"),
    [
        # Modules of 32 and of 64 px and of one seed: the numbers in their paths were once taken for
        # seeds.
        ([_linear("runs/32/hub"), _linear("runs/64/hub")],
         ["CPC v2 (runs/32/hub)", "CPC v2 (runs/64/hub)"]),
        ([_theirs("x/mobile")], ["mobile"]),
        (
            [*map(_theirs, ("x/mobile", "y/efficient", "z/mobile", "https://host/publisher/net/1"))],
            ["efficient", "publisher/net/1", "mobile (x/mobile)", "mobile (z/mobile)"],
        ),
        ([_linear("a", trained_by="new"), _linear("b"), _linear("c", trained_by="cpc+labels")],
         ["CPC v2", "CPC v2 and labels", "new"]),
        ([_linear("a", trained_by="cpc+rotation"), _linear("b", trained_by="cpc+rotation+labels")],
         ["CPC + Rotation", "CPC + Rotation and labels"]),
        ([_linear("runs/hub"), _linear("pixels")], ["CPC v2", "pixels"]),
        ([_linear("a"), _other(began_with="first")], ["CPC v2", "CPC v2 (from first)"]),
        ([_linear("a"), _other(architecture="resnet50_v2")],
         ["CPC v2 (ResNet-50 v2)", "CPC v2 (small ResNet)"]),
        ([_linear("a"), _other(architecture="resnet50_x2_grey")],
         ["CPC v2 (ResNet-50 x2, grey)", "CPC v2 (small ResNet)"]),
        ([_linear("a"), _other(1, dataset="folder:birds")],
         ["CPC v2 (birds)", "CPC v2 (photos/100)"]),
    ],
)  # fmt: skip
def test_different_encoders_are_methods_with_distinct_titles(runs, titles):
    assert _names(runs) == titles


def test_encoders_of_equally_named_folders_are_not_seeds():
    """Their cards say 'folder:images', and the page has two folders of that name."""
    runs = [
        _linear(f"runs/{n}/hub", identity={**samples.identity("x", n), "dataset": "folder:images"})
        for n in (0, 1)
    ]
    assert len(methods.methods(runs)) == 1
    for run in runs:
        run.unclear = True
    assert _names(runs) == ["CPC v2 (runs/0/hub)", "CPC v2 (runs/1/hub)"]


def _made(tmp_path, seed, *flags, **more):
    """A run of a directory, with its run.flags."""
    folder = tmp_path / "-".join([str(seed), *flags])
    lines = "".join(f"{flag}\n" for flag in (f"--seed={seed}", f"--workdir={folder}", *flags))
    samples.write(folder, {}, run__flags=lines)
    return Run({**samples.linear(f"runs/{seed}/hub", seed=seed), **more}, folder.name, str(folder))


def test_runs_of_other_settings_are_not_averaged(tmp_path):
    """The shorter ones, and those that differ from most, say so; a tie is said of both."""
    usual = [
        _made(tmp_path, seed, "--augment=none", "--xla=on" if seed else "--xla=off")
        for seed in (0, 1)
    ]
    other = _made(tmp_path, 2, "--augment=full")
    short = _made(tmp_path, 3, "--augment=none", "--train_steps=9", steps=1000)
    found = {method.title: len(method.runs) for method in methods.methods([short, *usual, other])}
    assert found == {"CPC v2": 2, "CPC v2 (augment=full)": 1, "CPC v2 (1,000 steps)": 1}
    assert _names([usual[0], other]) == ["CPC v2 (augment=full)", "CPC v2 (augment=none)"]


def test_runs_with_other_class_counts_are_not_averaged():
    """A folder may have changed between two runs."""
    for name in ("num_classes", "num_train_labels"):
        runs = [*(_linear("a", seed) for seed in (0, 1)), _linear("a", 2, **{name: 7})]
        assert _names(runs) == ["CPC v2", f"CPC v2 ({name}=7)"]


def test_encoders_that_were_pretrained_otherwise_are_not_averaged():
    line = "cpc_tf.linear --train_steps=0 --seed=0"
    pretrain = "cpc_tf.pretrain --train_steps"
    runs = [
        _linear("a", n, settings=[f"{pretrain}={steps} --seed={n}", "export", line])
        for n, steps in enumerate((950, 950, 300))
    ]
    assert _names([*runs, _linear("a", 5)]) == ["CPC v2", "CPC v2 (pretrain train_steps=300)"]
    runs = [
        _linear(f"{n}", identity={**samples.identity("hub", n), "steps": s})
        for n, s in enumerate((900, 900, 30))
    ]
    assert _names(runs) == ["CPC v2", "CPC v2 (encoder_steps=30)"]


def test_methods_are_in_the_order_of_tables():
    encoders = (("pixels", ""), ("random", ""), ("c", "labels"), ("b", "rotation"), ("a", ""))
    found = methods.methods([_linear(encoder, trained_by=by) for encoder, by in encoders])
    assert [method.trained_by for method in found] == [
        "cpc",
        "rotation",
        "labels",
        "untrained",
        "pixels",
    ]
    assert [method.pretrained for method in found] == [True, True, False, False, False]
    assert found[0].spread("top1").mean == 0.9


def test_plateau_length_is_no_setting_but_maximum_is():
    def names(*lengths, more=""):
        lines = [f"cpc_tf.efficient --train_steps={most}{more}" for _, most in lengths]
        found = [samples.efficient(seed=n, steps=steps) for n, (steps, _) in enumerate(lengths)]
        return _names(samples.run({**each, "settings": [line]}) for each, line in zip(found, lines))

    given, found = ((1500, 9000), (2500, 9000)), " --patience=5"
    assert names(*given) == ["CPC v2", "CPC v2 (1,500 steps)"]
    assert names(*given, more=found) == ["CPC v2"]
    assert names(*given, (500, 600), more=found) == ["CPC v2", "CPC v2 (train_steps=600)"]


@pytest.mark.parametrize("task", TASKS)
def test_runs_with_different_settings_are_different_methods(task, tmp_path):
    fields = {field.name: field.metadata for _, field in leaves(TASKS[task].config)}
    for name, metadata in fields.items():
        runs = [
            _made(tmp_path, seed, f"--{name}={value}", kind=task) for seed, value in enumerate("ab")
        ]
        assert (len(_names(runs)) == 1) is (
            metadata["free_on_resume"] or not metadata["compared"]
        ), name
    # The default keeps runs apart. What has another one is a seed, a place, or stands in the result
    # or its identity.
    assert {name for name, metadata in fields.items() if not metadata["compared"]} <= {
        *("seed", "dataset", "boxes", "labelled", "max_megapixels", "share_records"),
        *("encoder", "initial_encoder", "baselines", "label_fraction", "labels_per_class"),
    }
