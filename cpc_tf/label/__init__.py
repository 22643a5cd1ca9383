"""Labels of images, given in the browser."""
