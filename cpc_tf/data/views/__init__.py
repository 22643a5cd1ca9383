"""What a network sees of an image: patch grids, crops, canvases."""
