"""`python -m cpc_tf.label` is `cpc-tf label`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("label"))
