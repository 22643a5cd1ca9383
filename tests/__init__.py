import cpc_tf  # noqa: F401, quietens TensorFlow, so it comes before it
