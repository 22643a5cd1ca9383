"""`python -m tests.paper.quick MODULE ARGUMENTS` is `python -m MODULE ARGUMENTS` without what other tests look at:

no figure is drawn, no process of its own checks an exported module, and a stack of the network 'tiny' is one block.
"""

import runpy
import sys

from cpc_tf.drawing import plots
from cpc_tf.encoders import networks
from cpc_tf.export import run
from cpc_tf.pretrain import patch_sheet

if __name__ == "__main__":
    plots.png = lambda *_, **__: b"\x89PNG"
    patch_sheet.write_once = lambda *_: None
    run.verify = lambda *_: {"difference": 0, "variables": 0, "same": 1}
    stacks = (networks.Stack(1, 4, 16, 1), networks.Stack(1, 4, 16, 2), networks.Stack(1, 8, 32, 2))
    networks.ARCHITECTURES["tiny"] = networks.Architecture(stacks, stem_kernel=3, stem_width=8, stem_pool=False)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
