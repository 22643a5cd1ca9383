"""Labels of pictures, given in the browser."""
