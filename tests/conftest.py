"""Four logical CPUs, so that replicas can be tested anywhere; set before TensorFlow starts its devices."""

import atexit
import gc
import os
import sys

import cpc_tf  # isort: skip  # noqa: F401 before TensorFlow, which it sets up
import pytest
import tensorflow as tf
from tensorflow.python.framework.config import disable_op_determinism  # public is only the way to enable it

from cpc_tf.encoders.networks import resnet
from cpc_tf.pretrain import patch_sheet
from cpc_tf.results import plots
from cpc_tf.training.strategy import make_strategy
from tests import processes

processes.prepare()

# What XLA compiles here runs once, on tiny inputs: LLVM's optimizations take longer than they save.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# On a machine with GPUs the tests show the same as on one without; CUDA_VISIBLE_DEVICES=0 runs them on a GPU.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# Traced graphs are many objects that are never freed. Python's garbage collector would take a tenth of the time.
gc.set_threshold(100_000, 20, 20)

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 4,
)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    session.config.exitstatus = exitstatus


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """Ends the process at once: freeing its graphs one by one takes up to half a minute."""
    if hasattr(config, "exitstatus") and not hasattr(config, "workerinput"):  # which pytest-xdist ends itself
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.exitstatus)


@pytest.fixture(autouse=True)
def _determinism_ends_with_the_test():
    """TensorFlow has it for the whole process, where later tests would need seeds that they do not set."""
    yield
    disable_op_determinism()


@pytest.fixture(scope="session")
def two_replicas():
    return make_strategy("mirrored", devices=("/cpu:0", "/cpu:1"))


@pytest.fixture(scope="session")
def four_replicas():
    # Keys of collective operations that those of two replicas have not.
    kind = type("MirroredStrategy", (tf.distribute.MirroredStrategy,), {"_collective_key_base": 10_000})
    return kind([f"/cpu:{number}" for number in range(4)])


def make_tiny(monkeypatch):
    """Makes 'small' smaller still, 16 wide: one block of each kind, traced and compiled in seconds."""
    stacks = (resnet.Stack(1, 4, 8, 1), resnet.Stack(1, 4, 16, 2))
    tiny = resnet.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    monkeypatch.setitem(resnet.ARCHITECTURES, "small", tiny)


@pytest.fixture
def tiny_encoder(monkeypatch):
    make_tiny(monkeypatch)


@pytest.fixture
def undrawn(monkeypatch):
    """Figures without the drawing."""
    monkeypatch.setattr(plots, "png", _no_figure)


@pytest.fixture(scope="module", autouse=True)
def _figures_are_drawn_where_they_are_looked_at(request):
    """Drawing takes a third of the time of a small run. The module that looks at figures has the mark `drawn`."""
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("drawn"):
            patch.setattr(plots, "png", _no_figure)
            patch.setattr(patch_sheet, "write_once", lambda *_: None)
        yield


def _no_figure(*_, **__):
    return b"\x89PNG"
