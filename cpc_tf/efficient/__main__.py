"""`python -m cpc_tf.efficient` is `cpc-tf efficient`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("efficient"))
