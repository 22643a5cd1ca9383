"""What each objective declares; tests/training/contract_test.py trains it, tests/conformance_test.py runs it."""

import pytest

from cpc_tf.objectives import OBJECTIVES
from cpc_tf.objectives.base import Figure
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, leaves, replace

pytestmark = pytest.mark.usefixtures("tiny_encoder")
TINY = replace(
    PretrainConfig(),
    resize=32,
    image_size=32,
    patch_size=8,
    patch_stride=8,
    steps_to_ignore=0,
    steps_to_predict=1,
    encoder="small",
    context_blocks=1,
    context_dim=8,
    batch_size=4,
    learning_rate=0.001,
)
WHOLE_IMAGES = [name for name, objective in OBJECTIVES.items() if objective.VIEW.whole]


def tiny(name, **changes):
    return replace(TINY, objective=name, patch_size=32 if name in WHOLE_IMAGES else 8, **changes)


def test_they_are_there():
    assert set(OBJECTIVES) >= {"cpc", "rotation", "relative_position", "instance"}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_says_what_it_is(name):
    objective = OBJECTIVES[name]
    assert name == objective.NAME
    assert objective.TITLE
    assert objective.SUMMARY.endswith(")")  # the paper
    for figure in objective.FIGURES.values():
        assert isinstance(figure, Figure)
        assert figure.form.format(0.5)
    settings = [field.name for _, field in leaves(PretrainConfig)]
    assert len(settings) == len(set(settings))


@pytest.mark.parametrize("name", WHOLE_IMAGES)
def test_whole_images_are_one_patch(name):
    with pytest.raises(ConfigError, match="^--patch_size=8: this objective sees whole images.*--patch_size=32"):
        replace(tiny(name), patch_size=8)
