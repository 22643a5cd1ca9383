"""The objectives of pre-training. A module in this package that defines an `Objective` is registered by that."""

from cpc_tf.objectives.base import Objective
from cpc_tf.registry import modules

modules(__name__)
# Name -> class, the choices of --objective.
OBJECTIVES = {objective.NAME: objective for objective in sorted(Objective.__subclasses__(), key=lambda o: o.NAME)}
