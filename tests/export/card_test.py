"""The card: its code runs, and it says only what is known."""

import os

import pytest

from cpc_tf.encoders.card import EncoderCard, Training
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.networks.resnet import ResNet
from cpc_tf.export import encoder as encoder_export
from cpc_tf.export import pretraining
from cpc_tf.settings import replace
from tests.export.conftest import GEOMETRY
from tests.snippets import printed, python_of


@pytest.fixture(scope="module")
def text(hub_dir):
    with open(os.path.join(hub_dir, "README.md")) as file:
        return file.read()


def test_code_runs(text, hub_dir, tmp_path):
    code = python_of(text)
    assert code.count("path/to/this/directory") == 1
    code = code.replace("path/to/this/directory", hub_dir)
    assert printed(code, "print(latents.shape, feature_map.shape)", tmp_path) == "(4, 5, 5, 64) (4, 16, 16, 64)"


def test_says_what_it_is(text):
    assert text.startswith("# CPC v2 encoder `small`, pre-trained on `folder:birds`")
    assert "| patch | 16 x 16 |" in text
    assert "| run | `first_run`, step 9 of batches of 2, averaged weights |" in text
    assert "10,944 parameters" in text
    assert "$" not in text


def test_figures_are_those_of_the_result(text):
    assert "| measured at the end of the run, step 9 | |" in text
    assert "(nats) | 4.250 |" in text
    assert "averaged weights | 0.500 |" in text
    assert "contrastive accuracy" not in text  # not in this result.json


@pytest.mark.parametrize(
    ("result", "words"),
    [({}, "there are no figures"), ({"step": 11, "loss": 1.0}, "step 11, which is not the exported step")],
)
def test_figures_of_another_step(small_config, result, words):
    encoder = EncoderConfig(encoder="small", output_stack=2)
    training = Training(objective="cpc", dataset="photos", seed=0, run="run", step=9, weights="raw")
    about = EncoderCard(encoder, GEOMETRY, training, 128, 1, {"tensorflow": "2.15.1"})
    run = replace(small_config, split="unlabelled")
    history = pretraining.describe(training, run, result)
    text = encoder_export.readme_text(about, ResNet.OPTIONS, ["feature_map", "features", "stack1"], history)
    assert words in text
    assert "norm `layer`, block_order `pre`, output_stack `2`" in text
    assert "split `unlabelled`" in text
    assert "what comes before\nit inside the network: `stack1`." in text
