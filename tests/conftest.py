"""What all tests share: an environment that is not the user's, four logical CPUs, replicas, and
small networks.
"""

import atexit
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile

import pytest
import tensorflow as tf

# public is only the way to enable it
from tensorflow.python.framework.config import (
    disable_op_determinism,
)

from cpc_tf.drawing import map as embedding_map
from cpc_tf.drawing import plots
from cpc_tf.encoders import networks
from cpc_tf.pretrain import patch_sheet
from cpc_tf.training.strategy import make_strategy
from tests import processes
from tests.run import KEPT

# The user's home and caches neither help nor hinder. What depends on its content alone is kept
# between runs: our operations in C++, whose names are digests of their sources, and matplotlib's
# list of fonts.
MADE_HOME = None
if "CPC_TF_TEST_HOME" not in os.environ:  # else a process that started this one has set it
    os.environ["CPC_TF_TEST_HOME"] = MADE_HOME = tempfile.mkdtemp(prefix="cpc_tf_home_")
os.environ.update(
    HOME=os.environ["CPC_TF_TEST_HOME"],
    CPC_TF_CACHE=str(KEPT / "cpc_tf"),
    MPLCONFIGDIR=str(KEPT / "matplotlib"),
)
for name in ("XDG_CACHE_HOME", "TF_CONFIG"):
    os.environ.pop(name, None)

# A shell ignores SIGINT for what it starts in the background, and any parent can block signals.
signal.pthread_sigmask(signal.SIG_SETMASK, ())
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)

# What XLA compiles here runs once, on tiny inputs: LLVM's optimizations take longer than they save.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)

# On a machine with GPUs the tests show the same as on one without; CUDA_VISIBLE_DEVICES=0 runs them
# on a GPU.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# Traced graphs are many objects that are never freed. Python's garbage collector would take a tenth
# of the time.
gc.set_threshold(100_000, 20, 20)

# Before the first operation, and after the environment that it hands on.
processes.prepare()

# Replicas can be tested anywhere; set before TensorFlow starts its devices.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 4,
)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Notes the CPU seconds of each test where tests/run.py asks for them."""
    before = _cpu_seconds()
    result = yield
    if room := os.environ.get("CPC_TF_TEST_PRICES"):
        with open(f"{room}/{os.getpid()}.jsonl", "a") as file:
            file.write(json.dumps({"test": item.nodeid, "cpu": _cpu_seconds() - before}) + "\n")
    return result


def _cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    session.config.exitstatus = exitstatus


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """Ends the process at once: freeing its graphs one by one takes up to half a minute."""
    processes.finish()
    if MADE_HOME:
        shutil.rmtree(MADE_HOME, ignore_errors=True)
    # which pytest-xdist ends itself
    if hasattr(config, "exitstatus") and not hasattr(config, "workerinput"):
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.exitstatus)


@pytest.fixture(autouse=True)
def _determinism_ends_with_the_test():
    """TensorFlow has it for the whole process, where later tests would need seeds that they do not
    set.
    """
    yield
    disable_op_determinism()


@pytest.fixture(scope="session")
def two_replicas():
    return make_strategy("mirrored", devices=("/cpu:0", "/cpu:1"))


@pytest.fixture(scope="session")
def four_replicas():
    # Keys of collective operations that those of two replicas have not.
    kind = type(
        "MirroredStrategy", (tf.distribute.MirroredStrategy,), {"_collective_key_base": 10_000}
    )
    return kind([f"/cpu:{number}" for number in range(4)])


def make_tiny(monkeypatch):
    """Makes 'small' smaller still, 16 wide: one block of each kind, traced and compiled in
    seconds.
    """
    stacks = (networks.Stack(1, 4, 8, 1), networks.Stack(1, 4, 16, 2))
    tiny = networks.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    monkeypatch.setitem(networks.ARCHITECTURES, "small", tiny)


@pytest.fixture
def tiny_encoder(monkeypatch):
    make_tiny(monkeypatch)


@pytest.fixture
def networks_of_one_block(monkeypatch):
    """For tests whose subject is no block: a step is traced in a third of the time."""
    for name, inside, outside in (("small", 4, 16), ("tiny", 8, 128)):
        stacks = (networks.Stack(1, inside, outside, 2),)
        one_block = networks.Architecture(
            stacks, stem_kernel=3, stem_width=8, stem_pool=name == "tiny"
        )
        monkeypatch.setitem(networks.ARCHITECTURES, name, one_block)


@pytest.fixture
def undrawn(monkeypatch):
    """Figures without the drawing."""
    monkeypatch.setattr(plots, "png", _no_figure)


@pytest.fixture(scope="module", autouse=True)
def _figures_are_drawn_where_they_are_looked_at(request):
    """Drawing takes a third of the time of a small run. The module that looks at figures has the
    mark `drawn`.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not request.node.get_closest_marker("drawn"):
            patch.setattr(plots, "png", _no_figure)
            # takes as long as a small run
            patch.setattr(embedding_map, "TSNE_MAP", embedding_map.PCA_MAP)
            patch.setattr(patch_sheet, "write_once", lambda *_: None)
        yield


def _no_figure(*_, **__):
    return b"\x89PNG"
