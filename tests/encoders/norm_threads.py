"""`python -m tests.encoders.norm_threads COUNT FILE` writes a native layer norm by so many
threads.
"""

import sys

import numpy as np
import tensorflow as tf

if __name__ == "__main__":
    tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
    from tests.encoders.layers_test import _inputs, _run

    np.savez(sys.argv[2], *_run(_inputs((3001, 16, 24)), True, True))
