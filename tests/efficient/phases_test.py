"""Which settings are tried and chosen; phases that share an encoder."""

import math
import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.efficient import phases
from cpc_tf.efficient.classifier import FROZEN, build_classifier
from cpc_tf.efficient.config import EfficientConfig, SearchConfig
from cpc_tf.efficient.phases import select, trials
from cpc_tf.efficient.run import prepare
from cpc_tf.evaluation import label_kinds
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import loop
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.phases import in_folder

GIVEN = {"learning_rate": 0.3, "weight_decay": 0.5, "dropout": 0.25, "batch_size": 7}


def searched(**changes):
    return trials(replace(EfficientConfig(), **{**GIVEN, "search_trials": 200, **changes}))


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


def test_what_is_given_comes_first_and_a_draw_depends_on_seed_and_number_alone():
    assert searched(search_trials=1) == [GIVEN]
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


class Scripted:
    """Phases without training. First rates above 1 diverge, the others are the better the larger; so are lengths."""

    def __init__(self):
        self.classifier = types.SimpleNamespace(get_weights=lambda: self.weights, set_weights=self.assign)
        self.weights = None
        self.inputs = types.SimpleNamespace(kind=label_kinds.SINGLE_LABEL, held_out=16, score="held_out_top1")

    def assign(self, weights):
        self.weights = weights

    def first(self, config, part, length=None):
        assert (part, length) == ("fit", None)
        if config.sgd.learning_rate > 1:
            raise loop.Diverged(f"at {config.sgd.learning_rate}")
        self.weights = config.sgd.learning_rate
        return types.SimpleNamespace(classifier=self.classifier, step=types.SimpleNamespace(numpy=lambda: 5))

    def held_out(self, config, trainee):
        return {"held_out_top1": self.weights, "held_out_loss": 1.0, "held_out_temperature": 2.0}

    def fine_tune(self, config, start, part, steps, evaluated):
        assert (part, evaluated) == ("fit", True)
        assert self.weights == 0.2, "not those of the frozen classifier"
        if config.sgd.encoder_rate > 1:
            raise loop.Diverged("fine-tuning")
        self.weights = "tuned"
        records = [{"step": n, "held_out_top1": 0.2 + config.sgd.encoder_rate * n / steps} for n in range(1, steps + 1)]
        return None, [{"step": 1, "loss": 1.0}, *({**record, "held_out_loss": 1.0} for record in records)]


def selected(**changes):
    """(phase, chosen, steps) of each trial, and what they select, where the rates 0.2 and 9 are drawn after 0.1."""
    given = {"learning_rate": 0.1, "search_trials": 6, "search_rates": "0.2,9", "finetune_steps": 2, **changes}
    selection = select(replace(EfficientConfig(), encoder="hub", workdir="none", **given), Scripted())
    return [(record["phase"], record["chosen"], record["steps"]) for record in selection.records], selection


def test_trials_that_diverge_are_recorded_and_not_chosen(capsys):
    tried, selection = selected(search_encoder_rates="0.1,9,0.3")
    frozen, tuned = (
        [(chosen, steps) for name, chosen, steps in tried if name == phase] for phase in ("frozen", "fine-tuned")
    )
    assert sorted(set(frozen)) == [(False, 0), (False, 5), (True, 5)]
    assert tuned == [(False, 0), *[(False, n) for n in (1, 2)], (False, 0), (False, 1), (True, 2)]
    sgd = selection.config.sgd
    assert (sgd.learning_rate, sgd.encoder_rate, selection.finetune_steps) == (0.2, 0.3, 2)
    assert selection.temperature is None  # of the length that was chosen none fits
    assert "diverged\n" in capsys.readouterr().out


def test_fine_tuning_that_diverges_leaves_the_frozen_classifier():
    tried, selection = selected(encoder_rate=9.0)
    assert tried[-2:] == [("fine-tuned", True, 0), ("fine-tuned", False, 0)]
    assert (selection.finetune_steps, selection.temperature) == (0, 2.0)


def test_where_all_trials_diverge_there_is_no_result():
    with pytest.raises(loop.Diverged, match="at 9"):
        selected(learning_rate=9.0, search_rates="9")


@pytest.mark.parametrize(
    ("flag", "value"), [("decays", "0,1e-2"), ("decays", "1e-5"), ("dropouts", "1,0"), ("multiples", "16,0")]
)
def test_lists_that_make_no_sense_are_refused_by_name(flag, value):
    flag = f"search_{flag}"
    with pytest.raises(ConfigError, match=f"--{flag}={value}"):
        SearchConfig(**{flag: value})


FLAGS = """
    --test_split=val --resize=16 --image_size=16 --augment=none --encoder=random --backbone=tiny --head_blocks=0
    --batch_size=4 --finetune_steps=2 --encoder_adam=paper --held_out=0 --strategy=single
    --steps_per_loop=1 --checkpoint_every=1
""".split()


def test_a_test_whose_loss_is_no_number_ends_the_run():
    made = object.__new__(phases.Phases)
    kind = types.SimpleNamespace(score=lambda *_: {"top1": 0.1, "loss": math.nan})
    made.inputs = types.SimpleNamespace(in_order=lambda *_: None, kind=kind)
    trainee = types.SimpleNamespace(phase=FROZEN, logits=lambda _: (None, None), rates=("encoder_rate",))
    with pytest.raises(loop.Diverged, match="loss is nan when tested, in runs/x. Try a smaller --encoder_rate"):
        made.test(replace(EfficientConfig(), workdir="runs/x"), trainee)


@pytest.mark.parametrize(
    ("longest", "images", "wanted"),
    [
        (225_000, 1_000_000, 1954),  # an epoch: 1,000,000 / 512, rounded up
        (225_000, 10_000, 500),  # 25 epochs, since one has 20 steps
        (1500, 10_000, 375),  # a quarter of the phase
        (200, 100, 50),
        (3, 100, 1),
    ],
)
def test_evaluations_are_epochs_apart_but_not_too_often_and_four_at_least(longest, images, wanted):
    assert phases.evaluate_every(replace(EfficientConfig(), batch_size=512), longest, images) == wanted


@pytest.mark.slow
def test_each_trial_of_fine_tuning_starts_from_the_same_weights_and_averages(folder, tmp_path, monkeypatch):
    here = [f"--dataset=folder:{folder}", f"--workdir={tmp_path}/run", f"--data_dir={tmp_path}/cache"]
    config = cli.parse(EfficientConfig, [*FLAGS, *here])
    made = prepare(config, tf.distribute.get_strategy())[1]
    came = [variable.numpy() for variable in made.encoder.trainable_variables]
    frozen = types.SimpleNamespace(classifier=build_classifier(config, FROZEN, made.encoder.map_shape(16), 3))

    def tuned(name, steps):
        return made.fine_tune(in_folder(config, name), frozen, "chosen", steps)[0]

    def saving(*arguments, save=Checkpoints.save, **options):
        save(*arguments, **options)
        if not (tmp_path / "run/killed").exists():
            shutil.copytree(tmp_path / "run/one", tmp_path / "run/killed")

    monkeypatch.setattr(Checkpoints, "save", saving)
    first = tuned("one", 2)
    ends = [variable.numpy() for variable in (*first.trained, *first.average.averages)]
    assert any(not np.array_equal(v, before) for v, before in zip(made.encoder.trainable_variables, came))
    resumed = tuned("killed", 2)
    for variable, end in zip((*resumed.trained, *resumed.average.averages), ends):
        np.testing.assert_array_equal(variable, end)
    second = tuned("two", 0)
    for variable, average, before in zip(made.encoder.trainable_variables, second.average.averages, came):
        np.testing.assert_array_equal(variable, before)
        np.testing.assert_array_equal(average, before)
