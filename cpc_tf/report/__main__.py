"""`python -m cpc_tf.report` is `cpc-tf report`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("report"))
