"""`python -m export` in a checkout is `cpc-tf export`; the code is in `cpc_tf.export`."""

import sys

from cpc_tf.program import main

if __name__ == "__main__":
    sys.exit(main("export"))
