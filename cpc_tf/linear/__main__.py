"""`python -m cpc_tf.linear` is `cpc-tf linear`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("linear"))
