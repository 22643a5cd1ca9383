"""`python -m tests.paper.quick MODULE ARGUMENTS` is `python -m MODULE ARGUMENTS` without what other tests look at:

no figure is drawn, and no process of its own checks an exported module.
"""

import runpy
import sys

from cpc_tf.export import run
from cpc_tf.results import plots

if __name__ == "__main__":
    plots.png = lambda *_, **__: b"\x89PNG"
    run.verify = lambda *_: {"difference": 0, "variables": 0, "same": 1}
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
