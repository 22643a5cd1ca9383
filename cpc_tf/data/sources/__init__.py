"""Data sets: encoded images, and labels or boxes, by name or path."""
