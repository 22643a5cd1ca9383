"""A module of ours -> TFLite, ONNX or Keras 3, compared with the SavedModel: `python -m cpc_tf.export --format=...`."""
