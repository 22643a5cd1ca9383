"""The objectives of pre-training: `config` has the table of them, and needs no TensorFlow."""
