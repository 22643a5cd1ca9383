"""Phases share an encoder: each starts from its weights as they were loaded, and goes on after a
kill.
"""

import math
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.settings import replace
from cpc_tf.efficient import phases
from cpc_tf.efficient.classifier import FROZEN, build_classifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import prepare
from cpc_tf.evaluation.counts import interval
from cpc_tf.evaluation.label_kinds import SINGLE_LABEL
from cpc_tf.training import loop
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.phases import FINE_TUNED, in_folder

FLAGS = """
    --test_split=val --resize=16 --image_size=16 --augment=none --encoder=random --backbone=tiny
    --head_blocks=0 --batch_size=4 --finetune_steps=2 --encoder_adam=paper --held_out=0
    --strategy=single --steps_per_loop=1 --checkpoint_every=1
""".split()


def test_nan_test_loss_ends_the_run():
    made = object.__new__(phases.ClassifierPhases)
    kind = types.SimpleNamespace(score=lambda *_: {"top1": 0.1, "loss": math.nan})
    made.inputs = types.SimpleNamespace(in_order=lambda *_: None, groups=lambda _: None, kind=kind)
    trainee = types.SimpleNamespace(
        phase=FROZEN, logits=lambda _: (None, None), rates=("encoder_rate",)
    )
    with pytest.raises(
        loop.Diverged, match="loss is nan when tested, in runs/x. Try a smaller --encoder_rate"
    ):
        made.test(replace(EfficientConfig(), workdir="runs/x"), trainee)


def test_interval_of_a_test_counts_each_group_once():
    made = object.__new__(phases.ClassifierPhases)
    groups = np.repeat(np.arange(10), 3)
    made.inputs = types.SimpleNamespace(
        in_order=lambda *_: None, groups=lambda _: groups, kind=SINGLE_LABEL
    )
    logits, labels = np.eye(2)[groups % 2], np.zeros(30, np.int64)
    trainee = types.SimpleNamespace(phase=FROZEN, logits=lambda _: (logits, labels), rates=())
    scores = made.test(EfficientConfig(), trainee).scores
    assert (scores["effective"], scores["tested"]) == (10, 30)
    assert (scores["top1_low"], scores["top1_high"]) == interval(5, 10)


@pytest.mark.parametrize(
    ("phase", "longest", "images", "wanted"),
    [
        (FROZEN, 225_000, 1_000_000, 1954),  # an epoch: 1,000,000 / 512, rounded up
        (FROZEN, 225_000, 10_000, 500),  # 25 epochs, since one has 20 steps
        (FROZEN, 1500, 10_000, 375),  # a quarter of the phase
        (FROZEN, 200, 100, 50),
        (FROZEN, 3, 100, 1),
        (FINE_TUNED, 25_000, 1_271_167, 2483),
        (FINE_TUNED, 25_000, 12_712, 25),
    ],
)
def test_evaluations_are_spaced_in_epochs_at_least_four(phase, longest, images, wanted):
    config = replace(EfficientConfig(), batch_size=512, finetune_look_steps=1)
    assert phases.evaluate_every(config, phase, longest, images) == wanted


@pytest.mark.slow
def test_fine_tuning_trials_start_from_the_same_weights(folder, tmp_path, monkeypatch):
    here = [
        f"--dataset=folder:{folder}",
        f"--workdir={tmp_path}/run",
        f"--data_dir={tmp_path}/cache",
    ]
    config = cli.parse(EfficientConfig, [*FLAGS, *here])
    made = prepare(config, tf.distribute.get_strategy())[1]
    came = [variable.numpy() for variable in made.encoder.trainable_variables]
    frozen = types.SimpleNamespace(
        classifier=build_classifier(config, FROZEN, made.encoder.map_shape(16), 3)
    )

    def tuned(name, steps):
        return made.fine_tune(in_folder(config, name), frozen, "chosen", steps)[0]

    def saving(*arguments, save=Checkpoints.save, **options):
        save(*arguments, **options)
        if not (tmp_path / "run/killed").exists():
            shutil.copytree(tmp_path / "run/one", tmp_path / "run/killed")

    monkeypatch.setattr(Checkpoints, "save", saving)
    first = tuned("one", 2)
    ends = [variable.numpy() for variable in (*first.trained, *first.average.averages)]
    assert any(
        not np.array_equal(v, before) for v, before in zip(made.encoder.trainable_variables, came)
    )
    resumed = tuned("killed", 2)
    for variable, end in zip((*resumed.trained, *resumed.average.averages), ends):
        np.testing.assert_array_equal(variable, end)
    second = tuned("two", 0)
    for variable, average, before in zip(
        made.encoder.trainable_variables, second.average.averages, came
    ):
        np.testing.assert_array_equal(variable, before)
        np.testing.assert_array_equal(average, before)
