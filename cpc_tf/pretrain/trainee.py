"""Pre-training: the model with its optimizer and averages, and one step of it in a replica."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from cpc_tf.core import native
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, renamed
from cpc_tf.encoders.card import EncoderCard, read_card, refuse_several
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.layers import has_batch_norm
from cpc_tf.encoders.load import saved_values, take_values
from cpc_tf.encoders.network import Network, make_encoder, restore_kernel_norms
from cpc_tf.encoders.released import directory_of
from cpc_tf.objectives.base import Contrastive, Objective, Output, check_groups
from cpc_tf.objectives.config import is_objective
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.diagnostics import latent_statistics, sample_latents
from cpc_tf.training.optimizer import adam, warm_up
from cpc_tf.training.trainee import KEPT, BatchPosition, Trainee, in_parts, placed, specs_of


class Pretraining(Trainee):
    """The step and the checkpoint of a pre-training run.

    Args:
      config: the run's settings.
      strategy: where it runs.
      train_steps: the length of the run, for the schedule.
      images: in the dataset, for an objective that remembers each; 0: it is none.

    Raises:
      ConfigError: if the batch cannot be divided among the replicas, or --initial_encoder does not
        fit.
    """

    def __init__(
        self,
        config: PretrainConfig,
        strategy: tf.distribute.Strategy,
        train_steps: int,
        images: int = 0,
    ):
        super().__init__(strategy, config.training.batch_size, config.numerics)
        kind = config.objective.kind
        chosen = config.optimizer
        parts = config.numerics.accumulate
        self._shapes = {name: view.shape(config.geometry) for name, view in kind.VIEW.views.items()}
        group = config.objective.negative_images or self.batch_size
        groups = {"negative_images": group} if config.objective_settings.NEGATIVES else {}
        for flag, size in {
            **groups,
            "norm_images": config.objective.norm_images or self.batch_size,
        }.items():
            check_groups(flag, size, self.batch_size, strategy.num_replicas_in_sync)
        if groups and len(self._shapes) > 1 and parts > 1 and self.rows // parts % group:
            raise ConfigError(
                "accumulate",
                parts,
                f"--objective={kind.NAME} compares images of different parts, which summed"
                " gradients cannot do; leave it out, or use a --negative_images that divides"
                f" {self.rows // parts}, the images of a part",
            )
        with strategy.scope():
            self.model = build_model(config, images, train_steps)
            for each in self.model.objectives:
                each.norm_images = config.objective.norm_images
            if config.initial_encoder:
                initialize(self.model.encoder, config.initial_encoder)
                self.model.begin()
            self.follows_length = ", ".join(
                x.FOLLOWS_LENGTH for x in self.model.objectives if x.FOLLOWS_LENGTH
            )
            rate = warm_up(chosen.learning_rate, chosen.schedule, chosen.warmup_steps, train_steps)
            self.optimizer = adam(rate, chosen.beta1, chosen.beta2, chosen.epsilon)
        _refuse_replicas(kind, self.model, strategy, config.training.strategy)
        of_groups = "running " if self.model.norm_images else ""
        batch_norm = f"batch norm's {of_groups}statistics" if has_batch_norm(self.model) else ""
        self.set_up(
            {"optimizer": (self.optimizer, self.model.trainable_variables)},
            clip_norm=chosen.clip_norm,
            average_decay=chosen.average_decay,
            of_whole_batch=batch_norm or kind.of_whole_batch(),
            model=self.model,
        )
        contrastive = [each for each in self.model.objectives if isinstance(each, Contrastive)]
        for each in contrastive:
            each.group = group
        # images of several parts or replicas are compared
        if contrastive and self.rows // parts % group:
            gradients = self._gradients_between_parts if parts > 1 else self.gradients
            exchanged = batch_norm or kind.of_whole_batch() or self.rows % group
            self.compile_gradients(gradients, exchanges=bool(exchanged))
        if self.exchanges and not batch_norm:
            for each in self.model.objectives:
                each.compiled = self.compiled

    @property
    def metric_names(self) -> list[str]:
        spread = ["feature_std", "effective_rank"] if self.model.LATENTS else []
        return ["loss", "gradient_norm", *spread, *self.model.metric_names]

    @property
    def batch_specs(self) -> dict[str, tf.TensorSpec]:
        """The batch of a replica: its views, uint8, and with an `INDEXED` objective the 'index' of
        each, int64.
        """
        views = {
            name: tf.TensorSpec([self.rows, *shape], tf.uint8)
            for name, shape in self._shapes.items()
        }
        return (
            {**views, "index": tf.TensorSpec([self.rows], tf.int64)}
            if self.model.INDEXED
            else views
        )

    def inputs(self, batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, ...]:
        return tuple(
            tf.ensure_shape(batch[name], [None, *spec.shape[1:]])
            for name, spec in self.batch_specs.items()
        )

    def losses(
        self, rows: BatchPosition, *inputs: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        views = dict(zip(self._shapes, inputs))
        of_images = {"index": inputs[-1], "step": rows.step} if self.model.INDEXED else {}
        return self._reported(
            self.model(_given(views), training=True, first=rows.first, **of_images), rows
        )

    def after_step(self, kept: dict[str, tf.Tensor]) -> None:
        self.model.after_step(kept, self.step)

    def _reported(
        self, output: Output, rows: BatchPosition
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        metrics = {"loss": output.loss, **output.metrics}
        if output.latents is not None:
            metrics["latents"] = sample_latents(output.latents, self.batch_size, rows.first)
        kept = {}
        for name, values in (output.kept or {}).items():
            if values.dtype not in (tf.float32, tf.int32):
                raise TypeError(
                    f"Output.kept[{name!r}] is {values.dtype.name}, not float32 or int32: a TPU"
                    " sums them"
                )
            kept[name] = placed(values, self.batch_size, rows.first)
        if kept:
            metrics[KEPT] = kept
        return output.loss, metrics

    def finished(self, metrics: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Replaces the sample of latents by statistics of that of all replicas."""
        if "latents" not in metrics:
            return metrics
        sample = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, metrics.pop("latents")
        )
        return {**metrics, **latent_statistics(sample)}

    def _gradients_between_parts(
        self, rows: BatchPosition, view: tf.Tensor
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        """Computes the gradients of a loss that compares images of several parts.

        Embeds part after part, computes the loss and its gradients with respect to all embeddings,
        and embeds the parts again to go back from there to the weights (Gao et al. 2021,
        arXiv:2101.06983).
        """
        parts = self.numerics.accumulate
        (views,) = in_parts([view], parts)
        embed = self.model.compiled(lambda part: self.model.embed(part, training=True))
        specs = specs_of(embed, views[0])
        embedded = tf.map_fn(embed, views, fn_output_signature=specs)
        embedded = {name: tf.reshape(x, [self.rows, *x.shape[2:]]) for name, x in embedded.items()}
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            output = self.model.loss(embedded, rows.first)
            loss, metrics = self._reported(output, rows)
            loss = self.upscaled(loss)
        upstream = tape.gradient(loss, embedded, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        upstream = [
            tf.ensure_shape(gradient, embedded[name].shape) for name, gradient in upstream.items()
        ]
        upstream = dict(zip(embedded, in_parts(upstream, parts)))

        def add(part: tf.Tensor, sums: list[tf.Tensor]):
            with tf.GradientTape() as tape:
                embeddings = embed(views[part])
            back = [upstream[name][part] for name in embeddings]
            gradients_of_part = tape.gradient(
                list(embeddings.values()), self.trained, output_gradients=back
            )
            return part + 1, [total + gradient for total, gradient in zip(sums, gradients_of_part)]

        zeros = [tf.zeros(variable.shape) for variable in self.trained]
        _, gradients = tf.while_loop(
            lambda part, _: part < parts, add, (0, zeros), maximum_iterations=parts
        )
        return gradients, metrics


def _given(views: dict[str, Any]) -> Any:
    """Returns what an objective is given: its view, or those of a sum by name."""
    return views if len(views) > 1 else next(iter(views.values()))


def _refuse_replicas(
    kind: type[Objective], model: Objective, strategy: tf.distribute.Strategy, flag: str
) -> None:
    """Raises ConfigError if each replica would compute from its own images what is of the whole
    batch.
    """
    replicas = strategy.num_replicas_in_sync
    of_each = ""
    if kind.of_whole_batch() and not kind.EXCHANGES:
        of_each = f"{kind.of_whole_batch()} (--objective={kind.NAME} does not exchange them)"
    elif has_batch_norm(model, exchanging=False):
        of_each = (
            "batch norm's statistics (Keras' layer does not exchange them,"
            " encoders.layers.make_norm does)"
        )
    if of_each and replicas > 1:
        raise ConfigError(
            "strategy",
            flag,
            f"each of the {replicas} devices would compute its own {of_each}, which is another"
            " objective than on one device; use --strategy=single",
        )


def build_model(config: PretrainConfig, images: int = 0, train_steps: int = 0) -> Objective:
    """Returns the objective's model with all its variables, initialized from
    `config.training.seed`.

    Without the number of `images` in the dataset and the length of the run it is one for an export.
    """
    keras.utils.set_random_seed(config.training.seed)
    precision = config.numerics.precision
    objective = config.objective
    model = objective.kind(
        make_encoder(config.encoder, precision), config.objective_settings, precision
    )
    model.prepare(images, train_steps)
    if native.runs_on_cpu():
        for each in model.objectives:
            each.parts = 1 if has_batch_norm(model.encoder) else config.parts
    # Traced, not run: a large encoder would take seconds and gigabytes.
    shapes = {name: view.shape(config.geometry) for name, view in objective.kind.VIEW.views.items()}
    views = {name: tf.TensorSpec([1, *shape], tf.uint8) for name, shape in shapes.items()}
    of_images = (
        {"index": tf.TensorSpec([1], tf.int64), "step": tf.TensorSpec([], tf.int64)}
        if model.INDEXED
        else {}
    )
    tf.function(model, autograph=False).get_concrete_function(_given(views), **of_images)
    model.begin()
    return model


def initialize(encoder: Network, module: str) -> None:
    """Gives an encoder the weights of --initial_encoder, one of our modules.

    The outputs stay the module's. Kernels before a norm get the length of new ones, so that they
    learn as fast.

    Raises:
      ConfigError: there is no such module, it learned from labels, or it is another network than
        the run's.
    """
    with renamed("encoder", "initial_encoder"):
        refuse_several(module)
        directory = directory_of(module)
        card = read_card(directory)
        if not is_objective(card.training.trained_by):
            raise ConfigError(
                "encoder",
                module,
                "it learned from labels, which pre-training does not use; name one that did not",
            )
        for field in dataclasses.fields(EncoderConfig):
            there = getattr(card.encoder, field.name)
            here = getattr(encoder.config, field.name)
            if there != here and field.name != "recompute":  # changes no value
                raise ConfigError(
                    "encoder",
                    module,
                    f"it has --{field.name}={there}, and this run has"
                    f" --{field.name}={here}; use the same",
                )
        take_values(encoder, saved_values(directory, module), module)
    restore_kernel_norms(encoder)


def read_initial_card(module: str) -> EncoderCard:
    """Returns the card of --initial_encoder. Raises ConfigError if there is none."""
    with renamed("encoder", "initial_encoder"):
        return read_card(directory_of(module))
