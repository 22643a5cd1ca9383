"""A module of ours -> TFLite, ONNX or Keras 3, compared with the SavedModel: `cpc-tf export --format=...`."""
