"""Predictions; called, it is `cpc_tf.api.model.predict`."""

from cpc_tf.callables import callable_package

callable_package(__name__, "cpc_tf.api.model")
