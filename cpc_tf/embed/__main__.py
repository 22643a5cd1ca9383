"""`python -m cpc_tf.embed` is `cpc-tf embed`."""

import sys

from cpc_tf.program import main

if __name__ == "__main__":
    sys.exit(main("embed"))
