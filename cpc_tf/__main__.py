"""`python -m cpc_tf` is the program `cpc-tf`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main())
