"""Trains with the step that `studies.gpu.kit` wrote, where there are JAX, NumPy and Pillow and no
TensorFlow.

    python3 .kit/train.py --kit=.kit --minutes=24 --output=FOLDER

First one step is compared with what TensorFlow computed. Then images are cropped, mirrored, and the
colours of each patch distorted, on the device. FOLDER gets log.jsonl and pieces of the averaged
weights of at most 15 MB, float16. It needs nothing else of this repository.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import pathlib
import time

import numpy as np

WARM_UP = 10  # steps that are not timed
EVERY = 50  # steps between records
PIECE = 15e6  # bytes
MOST_APART = 0.02  # of the loss of one step, relative: bfloat16 rounds otherwise on a GPU
DISTORTED = 0.8  # part of the patches, as `distort` in --augment=small_patches
HUE = 0.05
YIQ = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


def main() -> None:
    """Checks the step, trains and writes what the checkpoint takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kit", required=True, type=pathlib.Path)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=24, help="after which it stops")
    parser.add_argument("--steps", type=int, default=0, help="0: as many as the schedule has")
    given = parser.parse_args()
    about = json.loads((given.kit / "kit.json").read_text())

    step = Step(given.kit, about)
    step.check(given.kit)
    pictures = images(given.kit)
    log = step.train(pictures, given.steps or about["steps"], 60 * given.minutes)
    step.write(given.output, log)


class Step:
    """A step as a program, and the state that it changes."""

    def __init__(self, kit: pathlib.Path, about: dict):
        import jax
        from jax._src.interpreters import mlir
        from jax._src.lib import xla_client
        from jax._src.lib.mlir import ir

        jax.config.update("jax_enable_x64", True)
        self.about = about
        self.device = jax.devices()[0]
        library = getattr(xla_client, "_xla", xla_client)
        module = xla_client if hasattr(xla_client, "XlaComputation") else library
        computation = module.XlaComputation((kit / "step.hlo").read_bytes())
        text = library.mlir.xla_computation_to_mlir_module(computation)
        options = xla_client.CompileOptions()
        options.num_replicas = options.num_partitions = 1
        options.device_assignment = xla_client.DeviceAssignment.create(np.array([[self.device.id]]))
        began = time.time()
        with mlir.make_ir_context():
            devices = xla_client.DeviceList((self.device,))
            client = self.device.client
            self.program = client.compile_and_load(ir.Module.parse(text), devices, options)
        print(f"{self.device.device_kind}: compiled in {time.time() - began:.0f} s", flush=True)
        self.begin(kit)

    def begin(self, kit: pathlib.Path) -> None:
        """Puts the first values of the state on the device."""
        import jax

        stored = np.load(kit / "state.npz")
        self.state = []
        for place, dtype in zip(self.about["places"], self.about["dtypes"]):
            value = stored[f"a{place}"]
            self.state.append(jax.device_put(value.astype(dtype), self.device))

    def run(self, patches: np.ndarray) -> dict[str, float]:
        """Does a step with uint8 [B, R, C, P, P, 3]; returns its metrics, still on the device."""
        results = self.program.execute([patches, *self.state])
        results = [each[0] if isinstance(each, list) else each for each in results]
        metrics = results[: len(self.about["metrics"])]
        self.state = results[len(metrics) :]
        return dict(zip(self.about["metrics"], metrics))

    def check(self, kit: pathlib.Path) -> None:
        """Compares one step with TensorFlow's, and begins anew. Ends the program if they differ."""
        import jax

        expected = np.load(kit / "expected.npz")
        found = float(
            np.asarray(self.run(jax.device_put(expected["patches"], self.device))["loss"])
        )
        self.begin(kit)  # the step has taken the memory of the state
        wanted = float(expected["loss"])
        print(f"loss of one step: {found:.5f}, TensorFlow on a CPU {wanted:.5f}", flush=True)
        if abs(found - wanted) > MOST_APART * wanted:
            raise SystemExit("the loss of the step differs from TensorFlow's")

    def train(self, pictures: np.ndarray, steps: int, seconds: float) -> list[dict[str, float]]:
        """Trains; returns the records.

        Args:
          pictures: uint8 [N, S, S, 3].
          steps: the length.
          seconds: after which it ends before.
        """
        import jax

        size = self.about["batch"]
        cut = batch_maker(jax.device_put(pictures, self.device), self.about)
        random = np.random.default_rng(self.about["seed"])
        order = np.zeros(0, int)
        log = []
        began = time.time()
        timed = began
        for step in range(1, steps + 1):
            while len(order) < size:
                order = np.concatenate([order, random.permutation(len(pictures))])
            metrics = self.run(cut(step, order[:size]))
            order = order[size:]
            if step == WARM_UP:
                jax.block_until_ready(self.state)
                timed = time.time()
            late = time.time() - began > seconds
            if step % EVERY == 0 or step == steps or late:
                values = {name: float(np.asarray(value)) for name, value in metrics.items()}
                speed = (step - WARM_UP) * size / (time.time() - timed) if step > WARM_UP else 0.0
                log.append({"step": step, **values, "images_per_second": round(speed, 1)})
                print(json.dumps(log[-1]), flush=True)
                if not np.isfinite(values["loss"]):
                    raise SystemExit("diverged")
            if late:
                break
        return log

    def write(self, output: pathlib.Path, log: list[dict[str, float]]) -> None:
        """Writes the records and the averaged weights."""
        output.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(record) + "\n" for record in log)
        (output / "log.jsonl").write_text(lines)
        pieces: list[dict[str, np.ndarray]] = [{}]
        for index in self.about["averages"]:
            value = np.asarray(self.state[index]).astype(np.float16)
            if sum(each.nbytes for each in pieces[-1].values()) + value.nbytes > PIECE:
                pieces.append({})
            pieces[-1][f"a{index}"] = value
        for number, piece in enumerate(pieces):
            np.savez(output / f"averages_{number}.npz", **piece)


def images(kit: pathlib.Path) -> np.ndarray:
    """Returns the images of the kit, uint8 [N, S, S, 3]."""
    from PIL import Image

    packed = np.load(kit / "images.npz")
    data = packed["data"].tobytes()
    found = []
    begin = 0
    for end in packed["ends"]:
        found.append(np.asarray(Image.open(io.BytesIO(data[begin:end])).convert("RGB")))
        begin = end
    print(f"{len(found)} images", flush=True)
    return np.stack(found)


def batch_maker(pictures, about: dict):
    """Returns a function (step, rows int [B]) -> augmented patches uint8 [B, R, C, P, P, 3]."""
    import jax
    import jax.numpy as jnp

    crop, patch, stride = (about[name] for name in ("crop", "patch", "stride"))
    grid = (crop - patch) // stride + 1
    turn = jnp.array(YIQ, jnp.float32)
    uniform = functools.partial(jax.random.uniform, dtype=jnp.float32)

    def distort(x, key):
        """Brightness, contrast, saturation and hue of a patch, float32 [P, P, 3] in [0, 1]."""
        bright, contrast, saturation, hue, coin = jax.random.split(key, 5)
        y = x + uniform(bright, minval=-32 / 255, maxval=32 / 255)
        mean = y.mean((0, 1), keepdims=True)
        y = (y - mean) * uniform(contrast, minval=0.5, maxval=1.5) + mean
        y = y @ turn.T  # luma and two axes of colour
        angle = 2 * jnp.pi * uniform(hue, minval=-HUE, maxval=HUE)
        scale = uniform(saturation, minval=0.5, maxval=1.5)
        i, q = y[..., 1], y[..., 2]
        turned_i = scale * (jnp.cos(angle) * i - jnp.sin(angle) * q)
        turned_q = scale * (jnp.sin(angle) * i + jnp.cos(angle) * q)
        y = jnp.stack([y[..., 0], turned_i, turned_q], -1) @ jnp.linalg.inv(turn).T
        return jnp.where(uniform(coin) < DISTORTED, jnp.clip(y, 0, 1), x)

    def cut(picture, key):
        corner, coin, colours = jax.random.split(key, 3)
        top, left = jax.random.randint(corner, (2,), 0, picture.shape[0] - crop + 1)
        x = jax.lax.dynamic_slice(picture, (top, left, 0), (crop, crop, 3))
        if about["mirror"]:
            x = jnp.where(uniform(coin) < 0.5, x[:, ::-1], x)
        places = jnp.arange(grid)[:, None] * stride + jnp.arange(patch)  # [R, P]
        x = x[places][:, :, places]  # [R, P, C, P, 3]
        x = x.transpose(0, 2, 1, 3, 4).reshape(-1, patch, patch, 3)  # [R*C, P, P, 3]
        x = x.astype(jnp.float32) / 255
        x = jax.vmap(distort)(x, jax.random.split(colours, grid * grid))
        return jnp.round(x * 255).astype(jnp.uint8).reshape(grid, grid, patch, patch, 3)

    @jax.jit
    def batch(step, rows):
        key = jax.random.fold_in(jax.random.key(about["seed"]), step)
        return jax.vmap(cut)(pictures[rows], jax.random.split(key, about["batch"]))

    return lambda step, rows: batch(np.int32(step), np.asarray(rows, np.int32))


if __name__ == "__main__":
    main()
