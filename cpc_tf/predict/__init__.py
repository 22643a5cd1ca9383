"""Predictions of pictures."""
