"""The other objectives: NAME.py has the model, NAME_config.py its settings, without TensorFlow."""
