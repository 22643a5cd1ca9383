"""CPC v2 in one file, after Hénaff et al., "Data-Efficient Image Recognition with Contrastive
Predictive Coding" (ICML 2020).

    python examples/cpc.py                    # scikit-image's sample photographs, about a minute
    python examples/cpc.py --pictures=FOLDER  # your JPEG and PNG files
    python examples/cpc.py --pictures=FOLDER --paper  # the paper's sizes, for accelerators

Read it from top to bottom beside the paper. An image becomes a grid of patches, each augmented on
its own (1). An encoder turns a patch into a latent (2). A context network sums up the latents above
a place, from which those further below are predicted, and InfoNCE is the loss (3), in each of four
directions (4). Then come training, features and an export (5), and last the augmentations (6).

In shapes: B images, grids of H x W patches of P px, latents of D and targets of T dimensions.
"""

import argparse
import dataclasses
import functools
import importlib.util
import math
import pathlib

import tensorflow as tf
from tensorflow import keras

if hasattr(keras, "version"):  # Keras 3: TF-Hub needs Keras 2, which is then a package of its own
    import tf_keras as keras


@dataclasses.dataclass(frozen=True)
class Config:
    """The values of Section 4.1 and Appendix A."""

    resize: int = 300  # side of an image, px
    crop: int = 260  # side of a random part of it
    patch: int = 80  # P
    stride: int = 36  # from one patch to the next

    # ResNet-161. Of each stack: blocks, channels inside a block and behind it (the last are D).
    stacks: tuple = ((3, 64, 256), (4, 128, 512), (46, 512, 4096))

    context_dim: int = 256
    target_dim: int = 64  # T
    emb_scale: float = 0.1
    steps_to_ignore: int = 2  # rows below, whose patches overlap what the context has seen
    steps_to_predict: int = 3

    batch_size: int = 512  # B
    learning_rate: float = 4e-4
    polyak_decay: float = 0.9999

    @property
    def grid(self):
        return (self.crop - self.patch) // self.stride + 1  # H and W: 6


PAPER = Config()
SMALL = Config(
    resize=128,
    crop=112,
    patch=32,
    stride=16,
    stacks=((1, 16, 64), (1, 32, 128), (1, 64, 256)),
    context_dim=64,
    steps_to_ignore=1,
    steps_to_predict=2,
    batch_size=16,
    learning_rate=2e-3,
    polyak_decay=0.9,
)


# ---- 1. Patches: "Image preprocessing" of Appendix A ---------------------------------------------


def read(path, side):
    """A JPEG or PNG file -> the whole image as a square, [side, side, 3] in [0, 1]."""
    image = tf.image.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
    image = tf.image.convert_image_dtype(image, tf.float32)
    image = tf.image.resize(image, [side, side], antialias=True)
    return tf.clip_by_value(image, 0.0, 1.0)


def divide(image, config):
    """An image [S, S, 3] -> overlapping patches [H*W, P, P, 3], row by row from the top left."""
    size = [1, config.patch, config.patch, 1]
    strides = [1, config.stride, config.stride, 1]
    patches = tf.image.extract_patches(image[None], size, strides, [1, 1, 1, 1], "VALID")
    # [1, H, W, P*P*3] -> [H*W, P, P, 3]
    return tf.reshape(patches, [-1, config.patch, config.patch, 3])


def training_data(files, config):
    """Batches of augmented patches without end, [B, H, W, P, P, 3] in [0, 1]."""

    def random_patches(path):
        image = read(path, config.resize)
        return divide(tf.image.random_crop(image, [config.crop, config.crop, 3]), config)

    images = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)).repeat()
    patches = images.map(random_patches, tf.data.AUTOTUNE).unbatch()  # [P, P, 3]
    patches = patches.map(augment, tf.data.AUTOTUNE)
    rows = patches.batch(config.grid, drop_remainder=True)  # [W, P, P, 3]
    grids = rows.batch(config.grid, drop_remainder=True)  # [H, W, P, P, 3]
    batches = grids.batch(config.batch_size, drop_remainder=True)  # [B, H, W, P, P, 3]
    return batches.prefetch(tf.data.AUTOTUNE)


def augment(patch):
    """Steps 1 to 4 of Appendix A, on one patch [P, P, 3]. The transformations are in part 6."""
    patch = one_of(AUTOAUGMENT, patch)  # 1.
    patch = one_of(AUTOAUGMENT, patch)
    patch = sometimes(0.2, deform_and_shear, patch)  # 2.
    patch = sometimes(0.2, change_histogram, patch)
    patch = sometimes(0.8, change_color, patch)  # 3.
    patch = sometimes(0.25, to_grey, patch)  # 4.
    return patch


def one_of(transformations, patch):
    index = tf.random.uniform([], maxval=len(transformations), dtype=tf.int32)
    return tf.switch_case(index, [functools.partial(each, patch) for each in transformations])


def sometimes(probability, transformation, patch):
    chosen = tf.random.uniform([]) < probability
    return tf.cond(chosen, lambda: transformation(patch), lambda: patch)


# ---- 2. The encoder f_theta: a ResNet with layer norm (Section 4.1) ------------------------------

Conv2D = keras.layers.Conv2D
EncoderConv2D = functools.partial(
    Conv2D, padding="same", use_bias=False, kernel_initializer="he_normal"
)


def LayerNorm():
    """Layer norm over all of a patch's map [h, w, C], with a scale and an offset per channel.

    So the encoder takes images of any size, too. Batch norm would let patches see each other.
    """
    return keras.layers.GroupNormalization(groups=1, epsilon=1e-5)


class Bottleneck(keras.layers.Layer):
    """A residual block of ResNet v2: norm and ReLU come before each convolution."""

    def __init__(self, bottleneck, width, stride, project):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = LayerNorm(), LayerNorm(), LayerNorm()
        self.conv1 = EncoderConv2D(bottleneck, 1)
        self.conv2 = EncoderConv2D(bottleneck, 3, stride)
        self.conv3 = EncoderConv2D(width, 1)
        self.shortcut = EncoderConv2D(width, 1, stride) if project else None

    def call(self, x):
        y = tf.nn.relu(self.norm1(x))
        if self.shortcut:
            x = self.shortcut(y)
        y = self.conv1(y)
        y = self.conv2(tf.nn.relu(self.norm2(y)))
        y = self.conv3(tf.nn.relu(self.norm3(y)))
        return x + y


class Encoder(keras.Model):
    """Images [N, S, S, 3] in [0, 1], patches or whole ones -> the mean of their maps, [N, D]."""

    def __init__(self, config):
        super().__init__()
        self.stem = EncoderConv2D(64, 7, 2)
        self.pool = keras.layers.MaxPool2D(3, 2, "same")
        self.blocks = []
        for stack, (blocks, bottleneck, width) in enumerate(config.stacks):
            stride = 1 if stack == 0 else 2
            self.blocks.append(Bottleneck(bottleneck, width, stride, project=True))
            for _ in range(blocks - 1):
                self.blocks.append(Bottleneck(bottleneck, width, stride=1, project=False))
        self.norm = LayerNorm()

    def call(self, images):
        x = self.stem(2 * images - 1)  # [N, S/2, S/2, 64]
        x = self.pool(x)  # [N, S/4, S/4, 64]
        for block in self.blocks:
            x = block(x)
        x = tf.nn.relu(self.norm(x))  # [N, S/16, S/16, D]: 5 x 5 of a patch of 80 px
        return tf.reduce_mean(x, [1, 2])


# ---- 3. The listings of Appendix A, nearly word by word. Their `col_dim` is H, their `rows` W ----


class PixelCNN(keras.layers.Layer):
    """The context network g_phi: row i of the contexts depends on the latents of rows <= i."""

    def __init__(self, cres_dim, context_dim):
        super().__init__()
        self.blocks = []
        for _ in range(5):
            conv1 = Conv2D(context_dim, (1, 1))
            conv2 = Conv2D(context_dim, (1, 3), padding="same")
            conv3 = Conv2D(context_dim, (2, 1), padding="valid")
            conv4 = Conv2D(cres_dim, (1, 1))
            self.blocks.append([conv1, conv2, conv3, conv4])

    def call(self, latents):
        cres = latents  # [B, H, W, D]
        for conv1, conv2, conv3, conv4 in self.blocks:
            c = conv1(cres)
            c = tf.nn.relu(c)
            c = conv2(c)
            c = tf.pad(c, [[0, 0], [1, 0], [0, 0], [0, 0]])  # [B, H+1, W, ...]: zeros on top
            c = conv3(c)  # [B, H, W, ...]: a row and the one above it
            c = tf.nn.relu(c)
            c = conv4(c)  # [B, H, W, D]
            cres = cres + c
        cres = tf.nn.relu(cres)
        return cres


class CPC(keras.layers.Layer):
    """InfoNCE of one direction, down: latents [B, H, W, D] -> the loss, a scalar in nats."""

    def __init__(self, latent_dim, config):
        super().__init__()
        self.pixelCNN = PixelCNN(latent_dim, config.context_dim)
        self.target_conv = Conv2D(config.target_dim, (1, 1))
        self.steps = range(config.steps_to_ignore, config.steps_to_predict)
        self.pred_convs = [Conv2D(config.target_dim, (1, 1)) for _ in self.steps]  # the W_k
        self.target_dim = config.target_dim
        self.emb_scale = config.emb_scale

    def call(self, latents):
        loss = 0.0
        context = self.pixelCNN(latents)  # [B, H, W, D]
        targets = self.target_conv(latents)  # [B, H, W, T]
        batch_dim, col_dim, rows = targets.shape[:-1]
        targets = tf.reshape(targets, [-1, self.target_dim])  # [B*H*W, T]
        for i, pred_conv in zip(self.steps, self.pred_convs):
            col_dim_i = col_dim - i - 1  # rows of the grid that have a target, i + 1 below
            total_elements = batch_dim * col_dim_i * rows

            preds_i = pred_conv(context)  # [B, H, W, T]
            preds_i = preds_i[:, : -(i + 1), :, :] * self.emb_scale  # [B, H-i-1, W, T]
            preds_i = tf.reshape(preds_i, [-1, self.target_dim])  # [B*(H-i-1)*W, T]

            logits = tf.matmul(preds_i, targets, transpose_b=True)  # [B*(H-i-1)*W, B*H*W]

            b = tf.range(total_elements) // (col_dim_i * rows)  # of which image
            col = tf.range(total_elements) % (col_dim_i * rows)  # which place in it
            labels = b * col_dim * rows + (i + 1) * rows + col

            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss += tf.reduce_mean(losses)
        return loss


# ---- 4. CPC v2: all four directions, each with a context network of its own (Section 4.1) --------


class CPCv2(keras.Model):
    """Patches [B, H, W, P, P, 3] in [0, 1] -> the sum of the losses of all directions."""

    # Counter-clockwise turns of the grid by 90 degrees, after which a direction points down.
    TURNS = {"down": 0, "up": 2, "right": 3, "left": 1}  # noqa: RUF012

    def __init__(self, config):
        super().__init__()
        latent_dim = config.stacks[-1][-1]
        self.encoder = Encoder(config)
        self.directions = {name: CPC(latent_dim, config) for name in self.TURNS}

    def encode(self, patches):
        images = tf.reshape(patches, [-1, *patches.shape[3:]])  # [B*H*W, P, P, 3]
        latents = self.encoder(images)  # [B*H*W, D]
        return tf.reshape(latents, [*patches.shape[:3], -1])  # [B, H, W, D]

    def call(self, patches):
        latents = self.encode(patches)
        loss = 0.0
        for name, turns in self.TURNS.items():
            loss += self.directions[name](tf.image.rot90(latents, turns))
        return loss


# ---- 5. Training ("Optimization details" of Appendix A), features (Section 2.2) and an export ----


def train(files, config, steps):
    """Trains a model; its weights are at last the averages of the steps (Polyak)."""
    model = CPCv2(config)
    optimizer = keras.optimizers.Adam(
        config.learning_rate,
        beta_1=0.8,
        beta_2=0.999,
        epsilon=1e-8,
        global_clipnorm=0.01,
        use_ema=True,
        ema_momentum=config.polyak_decay,
    )

    @tf.function(autograph=False)  # traced sooner; no branch depends on a tensor
    def train_step(patches):
        with tf.GradientTape() as tape:
            loss = model(patches)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    candidates = config.batch_size * config.grid * config.grid
    predictions = 4 * (config.steps_to_predict - config.steps_to_ignore)
    print(f"the loss of guessing: {predictions * math.log(candidates):.2f}")
    for step, patches in enumerate(training_data(files, config).take(steps), start=1):
        loss = train_step(patches)
        if step % 10 == 0 or step in (1, steps):
            print(f"step {step}: loss {loss:.2f}", flush=True)

    optimizer.finalize_variable_values(model.trainable_variables)
    return model


def features(encoder, files, config):
    """One vector an image, [N, D]: the encoder sees the middle of it as a whole, not as patches."""
    vectors = []
    for file in files:
        image = read(file, config.resize)
        image = tf.image.resize_with_crop_or_pad(image, config.crop, config.crop)
        vectors.append(encoder(image[None])[0])
    return tf.stack(vectors)


def export(encoder, folder):
    """Writes a SavedModel for hub.load, hub.KerasLayer and tf.saved_model.load.

    It takes images [N, S, S, 3] in [0, 1], of any size, and returns their features [N, D].
    """
    module = tf.train.Checkpoint(
        variables=encoder.variables,
        trainable_variables=encoder.trainable_variables,
        regularization_losses=[],
    )
    images = tf.TensorSpec([None, None, None, 3], tf.float32)
    module.__call__ = tf.function(encoder.call, [images], autograph=False)
    tf.saved_model.save(module, folder)


# ---- 6. The transformations of a patch [P, P, 3], whose values are and stay in [0, 1] ------------


def uniform(low, high):
    return tf.random.uniform([], low, high)


def to_grey(patch):
    return tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(patch))


def affine(patch, a=1.0, b=0.0, c=0.0, d=0.0, e=1.0, f=0.0):
    """Shows at (x, y) what was at (a x + b y + c P, d x + e y + f P); grey where nothing was."""
    side = patch.shape[0]
    c = c * side + (a + b - 1) / 2  # coordinates are those of the middles of pixels
    f = f * side + (d + e - 1) / 2
    transformed = tf.raw_ops.ImageProjectiveTransformV3(
        images=patch[None],
        transforms=tf.stack([a, b, c, d, e, f, 0.0, 0.0])[None],
        output_shape=[side, side],
        interpolation="NEAREST",
        fill_mode="CONSTANT",
        fill_value=0.5,
    )
    return transformed[0]


def rotate(patch, angle):
    """Counter-clockwise about the middle of the patch."""
    cos = tf.cos(angle)
    sin = tf.sin(angle)
    return affine(patch, cos, -sin, (1 - cos + sin) / 2, sin, cos, (1 - cos - sin) / 2)


def auto_contrast(patch):
    """Each channel then has the whole range."""
    low = tf.reduce_min(patch, [0, 1])
    high = tf.reduce_max(patch, [0, 1])
    return tf.math.divide_no_nan(patch - low, high - low)


def equalize(patch):
    """Each channel's levels are then equally frequent: a level becomes its share of lower ones."""
    levels = tf.cast(255 * patch, tf.int32)
    channels = []
    for channel in tf.unstack(levels, axis=-1):
        counts = tf.math.bincount(tf.reshape(channel, [-1]), minlength=256, maxlength=256)
        shares = tf.cast(tf.cumsum(counts), tf.float32) / channel.shape.num_elements()
        channels.append(tf.gather(shares, channel))
    return tf.stack(channels, -1)


def posterize(patch, bits):
    levels = 2 ** tf.floor(bits)
    return tf.minimum(tf.floor(levels * patch), levels - 1) / levels


def blend(start, patch, factor):
    """`start` where the factor is 0, the patch where it is 1, and more than it above."""
    return tf.clip_by_value(start + factor * (patch - start), 0.0, 1.0)


def smooth(patch):
    padded = tf.pad(patch, [[1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
    kernel = tf.tile(kernel[:, :, None, None], [1, 1, 3, 1])  # [3, 3, 3, 1]
    return tf.nn.depthwise_conv2d(padded[None], kernel, [1, 1, 1, 1], "VALID")[0]


# AutoAugment (Cubuk et al. 2018, Table 6), without Cutout and SamplePairing, over the whole ranges.
AUTOAUGMENT = [
    lambda x: affine(x, b=uniform(-0.3, 0.3)),  # ShearX
    lambda x: affine(x, d=uniform(-0.3, 0.3)),  # ShearY
    lambda x: affine(x, c=uniform(-0.45, 0.45)),  # TranslateX
    lambda x: affine(x, f=uniform(-0.45, 0.45)),  # TranslateY
    lambda x: rotate(x, uniform(-math.pi / 6, math.pi / 6)),
    auto_contrast,
    lambda x: 1 - x,  # Invert
    equalize,
    lambda x: tf.where(x < uniform(0, 1), x, 1 - x),  # Solarize
    lambda x: posterize(x, uniform(4, 9)),
    lambda x: blend(tf.reduce_mean(to_grey(x)), x, uniform(0.1, 1.9)),  # Contrast
    lambda x: blend(to_grey(x), x, uniform(0.1, 1.9)),  # Color
    lambda x: blend(0.0, x, uniform(0.1, 1.9)),  # Brightness
    lambda x: blend(smooth(x), x, uniform(0.1, 1.9)),  # Sharpness
]


def deform_and_shear(patch):
    """De Fauw et al. 2018: 6 x 6 points move at random, and what lies between them follows."""
    side = patch.shape[0]
    pixels = tf.range(float(side))
    places = tf.stack(tf.meshgrid(pixels, pixels, indexing="ij"), -1)  # [P, P, 2]: row and column
    points = tf.random.normal([6, 6, 2], stddev=side / 16)
    deformed = tf.image.resize(points, [side, side], "bicubic")  # [P, P, 2]
    sheared = tf.random.uniform([2], -0.1, 0.1) * (places[..., ::-1] - side / 2)
    places = tf.clip_by_value(tf.round(places + deformed + sheared), 0, side - 1)
    return tf.gather_nd(patch, tf.cast(places, tf.int32))


def change_histogram(patch):
    """De Fauw et al. 2018: a random rising curve, of four pieces, maps the values of a channel."""
    black = tf.random.uniform([3], -0.1, 0.1)
    white = tf.random.uniform([3], 0.9, 1.1)
    rises = tf.random.uniform([3, 4], 0.5, 2.0)
    rises *= (white - black)[:, None] / tf.reduce_sum(rises, 1, keepdims=True)  # [3, 4]
    pieces = tf.clip_by_value(4 * patch[..., None] - tf.range(4.0), 0.0, 1.0)  # [P, P, 3, 4]
    return tf.clip_by_value(black + tf.reduce_sum(rises * pieces, -1), 0.0, 1.0)


def change_color(patch):
    """Szegedy et al. 2014, with the magnitudes of their code."""
    patch = tf.image.random_brightness(patch, 32 / 255)
    patch = tf.image.random_saturation(patch, 0.5, 1.5)
    patch = tf.image.random_hue(patch, 0.2)
    patch = tf.image.random_contrast(patch, 0.5, 1.5)
    return tf.clip_by_value(patch, 0.0, 1.0)


# ---- The program ---------------------------------------------------------------------------------


def sample_photographs():
    """The folder of the images inside scikit-image."""
    [package] = importlib.util.find_spec("skimage").submodule_search_locations
    return pathlib.Path(package, "data")


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=pathlib.Path, help="a folder of JPEG and PNG files")
    parser.add_argument("--paper", action="store_true", help="take the sizes of the paper")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--export", help="a folder for the trained encoder")
    flags = parser.parse_args(arguments)

    folder = flags.pictures or sample_photographs()
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in (".jpg", ".jpeg", ".png")]
    if not paths:
        parser.error(f"--pictures={folder}: has no .jpg, .jpeg or .png file")
    files = [str(path) for path in paths]

    keras.utils.set_random_seed(0)
    config = PAPER if flags.paper else SMALL
    model = train(files, config, flags.steps)

    # What the features are good for: images whose features point the same way are alike.
    vectors = tf.math.l2_normalize(features(model.encoder, files[:20], config), 1)  # [N, D]
    similarity = tf.linalg.set_diag(vectors @ tf.transpose(vectors), tf.fill([len(vectors)], -1.0))
    for path, nearest in zip(paths, tf.argmax(similarity, 1)):
        print(f"{path.name} is most like {paths[nearest].name}")

    if flags.export:
        export(model.encoder, flags.export)


if __name__ == "__main__":
    main()
