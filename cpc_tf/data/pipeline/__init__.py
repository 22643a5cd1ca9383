"""Batches of views, with tf.data."""
