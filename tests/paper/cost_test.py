"""What runs cost before they start: by their headers, or counted as published networks are."""

import re

import pytest

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from studies.paper import command, cost
from studies.paper import figures as paper
from studies.paper.chains import CHAINS
from tests.binaries import ROOT

PER_IMAGE = re.compile(r"([\d.]+) TFLOP an image and step")
COUNTED = [
    name
    for name in cli.preset_names()
    if name.startswith("imagenet") and PER_IMAGE.search(cli.preset_header(name).cost)
]
PRETRAININGS = [name for name in COUNTED if "/pretrain_" in name]


@pytest.fixture(autouse=True)
def in_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(("text", "flop"), [
    ("500,456 steps; 1.7 TFLOP an image: about 6e20 FLOP in all. The paper: 32 workers", 6e20),
    ("a search of 12 settings, fine-tuning; at most 4e19 FLOP a setting, then 3e18. Not measured.",
     12 * 4e19 + 3e18),
    ("twice that of the baseline", 0),
])  # fmt: skip
def test_the_cost_is_what_a_header_states(text, flop):
    assert cost.flop(text) == flop


@pytest.mark.parametrize(("encoder", "side", "products"), [
    ("resnet50", 224, 4.1e9),  # He et al. 2016
    ("resnet101_v2", 224, 7.8e9),
    ("resnet152_v2", 224, 11.5e9),
    ("resnet50_x2_lab", 224, 2 * 16.1e9),  # two of ResNet-50 x2
])  # fmt: skip
def test_convolutions_are_counted_as_published(encoder, side, products):
    assert cost.forward(encoder, side) == pytest.approx(2 * products, rel=0.03)


@pytest.mark.parametrize("name", PRETRAININGS)
def test_header_cost_follows_from_steps_and_encoder(name):
    """Of an image a step takes at least three times the encoder's convolutions; a third more if it
    computes anew.
    """
    config, text = (
        cli.parse(TASKS["pretrain"].config, [f"--preset={name}"]),
        cli.preset_header(name).cost,
    )
    images = config.training.steps(paper.IMAGES) * config.training.batch_size
    per_image = 1e12 * float(PER_IMAGE.search(text)[1])
    assert 0.7 <= cost.stated(name) / images / per_image <= 1.4  # it states one digit
    assert per_image >= 2.7 * cost.encoded(config, config, config.geometry) / images
    if steps := re.match(r"([\d,]+) steps", text):
        assert int(steps[1].replace(",", "")) == pytest.approx(
            images / config.training.batch_size, rel=0.01
        )


def flop_of(*keys):
    todo = command.unique(step for key in keys for step in command.steps(CHAINS[key]))
    return dict(
        zip((" ".join(step.words) for step in todo), cost.of_steps([step.words for step in todo]))
    )


def test_rung_cost_equals_the_rung_its_header_names():
    of_fig3 = flop_of(*(key for key in CHAINS if key.startswith("rung_")))
    assert sum(of_fig3.values()) == pytest.approx(4.1e21, rel=0.05)


def test_a_classifier_costs_what_its_encoder_costs():
    """224 px of a ResNet-50 take a fiftieth of the 36 patches of ResNet-161 that the classifier's
    header is about.
    """
    found = flop_of("linear", "linear_moco", "linear_moco_x4", "instance_bank")
    linear = {
        re.search(r"imagenet/(\w+)/linear", line)[1]: x
        for line, x in found.items()
        if line.startswith("linear")
    }
    assert linear["resnet161"] == pytest.approx(6.5e19, rel=0.02)
    assert linear["moco"] == pytest.approx(9.4e17, rel=0.02)
    assert linear["moco_x4"] == pytest.approx(1.5e19, rel=0.02)
    few = [x for line, x in found.items() if line.startswith("efficient")]
    assert max(few) < cost.stated("imagenet/efficient") / 20
    *_, listed = command.listing(command.steps(CHAINS["linear_bigbigan"])).splitlines()
    assert (
        listed
        == "cost: at most 0e+00 FLOP, without imagenet/linear_bigbigan, of which nothing is known"
    )
