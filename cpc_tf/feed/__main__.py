"""`python -m cpc_tf.feed` is `cpc-tf feed`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("feed"))
