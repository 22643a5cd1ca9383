"""`python -m cpc_tf.detect` is `cpc-tf detect`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("detect"))
