"""Several objectives on one encoder, whose losses are summed, as of --objective=cpc+rotation.

Multi-task learning, as by Doersch & Zisserman 2017 (arXiv:1708.07860), with equal weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import tensorflow as tf

from cpc_tf.data.views import Together
from cpc_tf.encoders.network import Network
from cpc_tf.objectives import config
from cpc_tf.objectives.base import SPREAD, Contrastive, Figure, Objective, Output


class Sum(Objective):
    """Objectives with heads, views and settings of their own; `sum_of` makes the class of each sum.

    The latents whose spread is monitored are those of the first objective that has any.
    """

    KINDS: ClassVar[dict[str, type[Objective]]]  # what is summed, by name

    def __init__(self, encoder: Network, settings: config.SumConfig, precision: str = "float32"):
        super().__init__(encoder, settings, precision)
        self.summed = {
            name: kind(encoder, settings.summed[name], precision)
            for name, kind in self.KINDS.items()
        }

    @property
    def objectives(self) -> list[Objective]:
        return [self, *self.summed.values()]

    @property
    def metric_names(self) -> list[str]:
        names = []
        for name, each in self.summed.items():
            names += [f"{name}/{metric}" for metric in ("loss", *each.metric_names)]
        return names

    def prepare(self, images: int, train_steps: int) -> None:
        for each in self.summed.values():
            each.prepare(images, train_steps)

    def begin(self) -> None:
        for each in self.summed.values():
            each.begin()

    def call(
        self,
        view: dict[str, tf.Tensor],
        training: bool = False,
        first: tf.Tensor | int = 0,
        index: tf.Tensor | None = None,
        step: tf.Tensor | int = 0,
    ) -> Output:
        """Computes the sum for B images; `view` has the view of each objective by its name."""
        outputs = {}
        for name, each in self.summed.items():
            of_images = {"index": index, "step": step} if each.INDEXED else {}
            compute = functools.partial(each, training=training, first=first, **of_images)
            # What exchanges values between replicas compiles its pieces itself.
            exchanges = each.EXCHANGES or isinstance(each, Contrastive)
            outputs[name] = (compute if exchanges else self.compiled(compute))(view[name])
        metrics = {}
        kept = {}
        for name, output in outputs.items():
            metrics.update(
                {f"{name}/{key}": x for key, x in {"loss": output.loss, **output.metrics}.items()}
            )
            kept.update({f"{name}/{key}": x for key, x in (output.kept or {}).items()})
        latents = next(
            (output.latents for output in outputs.values() if output.latents is not None), None
        )
        return Output(
            tf.add_n([output.loss for output in outputs.values()]), metrics, latents, kept
        )

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        for name, each in self.summed.items():
            embeddings_of = {
                key.removeprefix(f"{name}/"): x
                for key, x in kept.items()
                if key.startswith(f"{name}/")
            }
            each.after_step(embeddings_of, step)

    def between_epochs(
        self, epoch: int, encode_all: Callable[[], np.ndarray]
    ) -> Sequence[tf.Variable]:
        encode_all = functools.cache(encode_all)
        periodic = [each for each in self.summed.values() if each.PERIODIC]
        variables = []
        for each in periodic:
            variables += each.between_epochs(epoch, encode_all)
        return variables


@functools.cache
def sum_of(name: str) -> type[Sum]:
    """Returns the class of a sum, such as 'cpc+rotation'."""
    kinds = {each: config.model_class(each) for each in name.split("+")}
    of_whole_batch = {each: kind.of_whole_batch() for each, kind in kinds.items()}
    figures = {}
    for each, kind in kinds.items():
        of_kind = {"loss": Figure("loss", "{:.3f}"), **kind.FIGURES}
        for key, (text, form) in of_kind.items():
            if key not in SPREAD:
                figures[f"{each}/{key}"] = Figure(f"{config.title(each)}: {text}", form)
    values = {
        "__doc__": Sum.__doc__,
        "KINDS": kinds,
        "NAME": name,
        "SUMMARY": " and ".join(kind.SUMMARY for kind in kinds.values()),
        "VIEW": Together({each: kind.VIEW for each, kind in kinds.items()}),
        "FIGURES": {"loss": Figure("sum of the losses", "{:.3f}"), **figures, **SPREAD},
        "LATENTS": any(kind.LATENTS for kind in kinds.values()),
        "OF_WHOLE_BATCH": ", ".join(phrase for phrase in of_whole_batch.values() if phrase),
        "EXCHANGES": all(kind.EXCHANGES for each, kind in kinds.items() if of_whole_batch[each]),
        "INDEXED": any(kind.INDEXED for kind in kinds.values()),
        "PERIODIC": any(kind.PERIODIC for kind in kinds.values()),
    }
    return type(Sum)("Sum", (Sum,), values)
