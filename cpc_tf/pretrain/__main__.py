"""`python -m cpc_tf.pretrain` is `cpc-tf pretrain`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("pretrain"))
