"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020."""

import faulthandler
import os
import sys
import tempfile

__version__ = "0.1.0"


def _import_tensorflow_quietly() -> None:
    """Imports TensorFlow with stderr redirected, so that its start-up notices do not bury our own lines.

    TensorFlow 2.16 and later write the first of them before they read TF_CPP_MIN_LOG_LEVEL. If the import fails, the
    notices are printed after all; if it ends the process, as on a processor without the instructions, a traceback is.
    """
    try:
        stderr, notices = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 closed below
    except OSError:  # there is no stderr, or the disk is full
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
# Who sets this variable to another level, or imports TensorFlow first, sees the notices.
if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3" and "tensorflow" not in sys.modules:
    _import_tensorflow_quietly()
