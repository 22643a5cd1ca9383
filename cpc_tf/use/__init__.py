"""What uses trained models: the Python API and the commands about images."""
