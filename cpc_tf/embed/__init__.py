"""Features of pictures."""
