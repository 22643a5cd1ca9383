import pytest

from cpc_tf.encoders.networks import resnet
from cpc_tf.results import map as embedding_map
from tests import samples


@pytest.fixture(scope="module", autouse=True)
def _networks_of_one_block_and_a_simple_map():
    """Neither is a subject here. A step of 'tiny' and 'small' is traced in a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, inside in (("tiny", 8), ("small", 16)):
            stacks = (resnet.Stack(1, inside, 128, 2),)
            one_block = resnet.Architecture(stacks, stem_kernel=3, stem_width=16, stem_pool=False)
            patch.setitem(resnet.ARCHITECTURES, name, one_block)
        # Places by neighbours (t-SNE) take as long as a small run.
        patch.setattr(embedding_map, "TSNE_MAP", embedding_map.PCA_MAP)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """12 red, green and blue pictures each to learn from, and 4 each to test on."""
    return samples.write_pictures(tmp_path_factory.mktemp("pictures") / "pictures", {"train": 12, "val": 4})
