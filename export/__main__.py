"""`python -m cpc_tf.export` is `cpc-tf export`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("export"))
