"""Pre-training; called, it is `cpc_tf.api.runs.pretrain`."""

from cpc_tf.callables import callable_package

callable_package(__name__, "cpc_tf.api.runs")
