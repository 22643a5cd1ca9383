"""One module of ours, written once for all tests of encoders; third-party modules; SavedModels that
are loaded once.
"""

import functools

import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders import networks, third_party
from cpc_tf.encoders.config import EncoderConfig
from tests.modules import write_module

GEOMETRY = GeometryConfig(resize=32, image_size=32, patch_size=16, patch_stride=8)


def make_one_block(monkeypatch):
    """Makes 'small' a single block of 16 channels."""
    stacks = (networks.Stack(1, 4, 16, 2),)
    one_block = networks.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    monkeypatch.setitem(networks.ARCHITECTURES, "small", one_block)


@pytest.fixture
def one_block(monkeypatch):
    make_one_block(monkeypatch)


@pytest.fixture(scope="package")
def ours(tmp_path_factory):
    """(directory, network) of a module as `cpc-tf export` writes it; with batch norm, for its
    statistics.

    Its network is that of `one_block`. Tests only read it.
    """
    path = tmp_path_factory.mktemp("hub")
    with pytest.MonkeyPatch.context() as patch:
        make_one_block(patch)
        return str(path), write_module(path, EncoderConfig(encoder="small", norm="batch"), GEOMETRY)


def write_theirs(path, call, images=(None, None, None, 3)):
    """Writes a third-party module, which does this with images of this shape; returns the
    function.
    """
    module = tf.Module()
    module.__call__ = tf.function(
        call, input_signature=[tf.TensorSpec(images, tf.float32)], autograph=False
    )
    tf.saved_model.save(module, str(path))
    return module.__call__


@pytest.fixture(scope="module")
def _kept():
    return functools.cache(hub.load)


@pytest.fixture
def loaded_once(monkeypatch, _kept):
    """Each SavedModel is loaded once for the tests of a file that change no variable of it."""
    monkeypatch.setattr(third_party.hub, "load", _kept)
