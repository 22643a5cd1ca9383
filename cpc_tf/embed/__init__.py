"""Features of pictures; called, it is `cpc_tf.api.encoder.embed`."""

from cpc_tf.callables import callable_package

callable_package(__name__, "cpc_tf.api.encoder")
