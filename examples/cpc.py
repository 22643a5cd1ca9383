"""CPC v2 from the package's parts: dataset, encoder, objective, optimizer and a loop.

    python examples/cpc.py my_pictures

`cpc-tf pretrain` trains the same, with gradients clipped to a norm of 0.01, and adds what a long run needs: schedules,
averages, several devices, checkpoints that resume exactly, a nearest-neighbour probe, an export. Read this file to see
the parts, or to use them in your own loop.
"""

import sys

import tensorflow as tf

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.core.keras import keras
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import DataConfig, GeometryConfig
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.objectives.cpc import CPC, CPCConfig

SEED = 0


def main(pictures: str, steps: int = 1000, batch_size: int = 32) -> None:
    # Each picture becomes a 5x5 grid of patches of 32 px that overlap by half; each patch is augmented on its own.
    source = catalog.open_source(DataConfig(dataset=f"folder:{pictures}"), split="train")
    geometry = GeometryConfig(resize=104, image_size=96, patch_size=32, patch_stride=16)
    batches = pipeline.batches(
        source, CPC.VIEW, geometry, AugmentConfig(), global_batch=batch_size, seed=SEED
    )

    # The encoder maps each patch to a latent z. For each direction, a context network summarizes the rows above, and
    # linear heads predict the targets of rows further down among those of all patches in the batch (InfoNCE).
    keras.utils.set_random_seed(SEED)
    encoder = make_encoder(EncoderConfig(encoder="small"))
    model = CPC(
        encoder, CPCConfig(directions=4, steps_to_ignore=1, steps_to_predict=3, context_dim=64)
    )
    optimizer = keras.optimizers.Adam(
        4e-4, beta_1=0.8, beta_2=0.999, epsilon=1e-8
    )  # appendix A; it clips, too

    for batch in batches.take(1):
        model(batch["patches"])  # makes the variables
    optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)  # no branch depends on a tensor
    def train_step(patches):  # uint8 [B, R, C, P, P, 3]
        with tf.GradientTape() as tape:
            output = model(patches, training=True)
        gradients = tape.gradient(output.loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return output.loss, output.metrics["accuracy"]

    for step, batch in enumerate(batches.take(steps), start=1):
        loss, accuracy = train_step(batch["patches"])
        if step % 10 == 0 or step == steps:
            print(f"step {step}: loss {loss:.3f}, contrastive accuracy {accuracy:.3f}", flush=True)

    # What CPC is for: a vector for each picture.
    plain = pipeline.plain_patches(source, geometry, batch_size)  # the centre crop, not augmented
    features = [
        tf.reduce_mean(model.encode(batch["patches"]), [1, 2]) for batch in plain
    ]  # [B, D] each
    print(f"features: {tf.concat(features, 0).shape}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:]))
