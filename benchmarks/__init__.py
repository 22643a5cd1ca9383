import cpc_tf

cpc_tf.prepare_environment()
