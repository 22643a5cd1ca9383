"""The objectives of pre-training: a module in this package that defines an `Objective` has registered it."""

from cpc_tf.objectives.base import Objective
from cpc_tf.registry import modules

modules(__name__)
# Name -> class, by name: what --objective chooses from.
OBJECTIVES = {objective.NAME: objective for objective in sorted(Objective.__subclasses__(), key=lambda o: o.NAME)}
