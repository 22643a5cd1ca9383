"""The peer of `python -m benchmarks.train_step`: CPC of the same size in PyTorch, a step on random
patches.

Prints JSON: median milliseconds of a step, and how many parameters there are. Needs PyTorch,
nothing of ours.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

# (blocks, bottleneck, width, stride) of each stack.
STACKS = {
    "small": [(2, 16, 64, 1), (2, 32, 128, 2), (2, 64, 256, 2)],
    "medium": [(2, 64, 256, 1), (2, 128, 512, 2), (2, 256, 1024, 2)],
}
GRID = 5
PATCH = 16
CONTEXT = 64
TARGET = 64
BLOCKS = 5
OFFSETS = (2,)
WARM_UP = 3
STEPS = 15


class Block(nn.Module):
    """A bottleneck with norm and ReLU before each convolution; norm over (C, H, W)."""

    def __init__(self, before, bottleneck, width, stride, project):
        super().__init__()
        sizes = (before, bottleneck, bottleneck)
        self.norms = nn.ModuleList(nn.GroupNorm(1, size) for size in sizes)
        self.conv1 = nn.Conv2d(before, bottleneck, 1, bias=False)
        self.conv2 = nn.Conv2d(bottleneck, bottleneck, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(bottleneck, width, 1, bias=False)
        self.shortcut = nn.Conv2d(before, width, 1, stride, bias=False) if project else None

    def forward(self, x):
        y = functional.relu(self.norms[0](x))
        shortcut = self.shortcut(y) if self.shortcut else x
        y = functional.relu(self.norms[1](self.conv1(y)))
        return shortcut + self.conv3(functional.relu(self.norms[2](self.conv2(y))))


class Encoder(nn.Module):
    """Patches [N, 3, P, P] in [0, 1] -> latents [N, D]."""

    def __init__(self, stacks):
        super().__init__()
        layers = [nn.Conv2d(3, 64, 3, 2, 1, bias=False)]
        before = 64
        for count, bottleneck, width, stride in stacks:
            for i in range(count):
                project = i == 0 and (stride > 1 or before != width)
                layers.append(Block(before, bottleneck, width, stride if i == 0 else 1, project))
                before = width
        self.body = nn.Sequential(*layers, nn.GroupNorm(1, before), nn.ReLU())
        self.dim = before

    def forward(self, x):
        return self.body(x * 2 - 1).mean((2, 3))


class Direction(nn.Module):
    """Latents [B, D, R, C], turned so that predictions go down -> loss."""

    def __init__(self, dim):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.Conv2d(dim, CONTEXT, 1),
                    nn.Conv2d(CONTEXT, CONTEXT, (1, 3), padding=(0, 1)),
                    nn.Conv2d(CONTEXT, CONTEXT, (2, 1)),
                    nn.Conv2d(CONTEXT, dim, 1),
                ]
            )
            for _ in range(BLOCKS)
        )
        self.target = nn.Conv2d(dim, TARGET, 1)
        self.heads = nn.ModuleList(nn.Conv2d(dim, TARGET, 1) for _ in OFFSETS)

    def forward(self, latents):
        context = latents
        for one, two, three, four in self.blocks:
            above = functional.pad(two(functional.relu(one(context))), (0, 0, 1, 0))
            context = context + four(functional.relu(three(above)))
        context = functional.relu(context)
        rows, columns = latents.shape[2:]
        targets = self.target(latents).float().permute(0, 2, 3, 1).reshape(-1, TARGET)  # [B*R*C, T]
        loss = 0
        for offset, head in zip(OFFSETS, self.heads):
            predictions = (
                (head(context)[:, :, :-offset].float() * 0.1)
                .permute(0, 2, 3, 1)
                .reshape(-1, TARGET)
            )
            i = torch.arange(len(predictions))
            count = (rows - offset) * columns
            labels = i // count * rows * columns + offset * columns + i % count
            loss = loss + functional.cross_entropy(predictions @ targets.T, labels)
        return loss


class CPC(nn.Module):
    """Patches uint8 [B, G, G, P, P, 3] -> loss of four directions."""

    def __init__(self, stacks):
        super().__init__()
        self.encoder = Encoder(stacks)
        self.directions = nn.ModuleList(Direction(self.encoder.dim) for _ in range(4))

    def forward(self, x):
        latents = self.encoder(x.reshape(-1, PATCH, PATCH, 3).permute(0, 3, 1, 2).float() / 255)
        grid = latents.reshape(x.shape[0], GRID, GRID, -1).permute(0, 3, 1, 2)
        return sum(
            direction(torch.rot90(grid, turns, (2, 3)))
            for direction, turns in zip(self.directions, range(4))
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--encoder", default="small", choices=STACKS)
    parser.add_argument("--precision", default="bf16", choices=["bf16", "f32"])
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    model = CPC(STACKS[args.encoder]).to(memory_format=torch.channels_last)
    run = torch.compile(model) if args.compile else model
    optimizer = torch.optim.Adam(model.parameters(), 4e-4, fused=True)
    average = [p.detach().clone() for p in model.parameters()]
    patches = torch.randint(0, 255, (args.batch, GRID, GRID, PATCH, PATCH, 3), dtype=torch.uint8)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            loss = run(patches)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        torch._foreach_lerp_(average, [p.detach() for p in model.parameters()], 0.001)
        return loss.item()

    seconds = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({"ms": 1000 * statistics.median(seconds[WARM_UP:]), "parameters": parameters}))


if __name__ == "__main__":
    main()
