"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020."""

import faulthandler
import os
import sys
import tempfile

__version__ = "0.1.0"


def _import_tensorflow_quietly() -> None:
    """Imports TensorFlow without its start-up notices, which TensorFlow 2.16+ writes at any TF_CPP_MIN_LOG_LEVEL.

    If the import fails, they are printed. If it aborts, as on a CPU without the needed instructions, a traceback is.
    """
    try:
        stderr, notices = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 closed below
    except OSError:  # no stderr, or a full disk
        return
    traces = not faulthandler.is_enabled()
    if traces:
        faulthandler.enable(stderr)
    os.dup2(notices.fileno(), 2)
    try:
        import tensorflow  # noqa: F401
    except BaseException:
        notices.seek(0)
        os.write(stderr, notices.read())
        raise
    finally:
        os.dup2(stderr, 2)
        if traces:
            faulthandler.disable()
        os.close(stderr)
        notices.close()


# GPUs: memory is taken as it is needed, so that several processes can share one. Processes that we start inherit it.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# Notices are shown if the variable is set to another level, or TensorFlow was imported before.
if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3" and "tensorflow" not in sys.modules:
    _import_tensorflow_quietly()
