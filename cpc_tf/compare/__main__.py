"""`python -m cpc_tf.compare` is `cpc-tf compare`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("compare"))
