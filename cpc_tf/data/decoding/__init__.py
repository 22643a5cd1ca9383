"""Image files to pixels."""
