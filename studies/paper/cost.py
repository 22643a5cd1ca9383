"""What a run of the paper costs before it starts, in FLOP: of its preset's header, or counted from
its convolutions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import Settings
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.networks import ARCHITECTURES, NETWORKS, Architecture, Stack
from studies.paper import figures as paper

FLOP = r"(\de\d+) FLOP"
LARGEST = "resnet161"  # on which the cost of the presets for few labels is stated


def stated(preset: str) -> float:
    """The FLOP that the header of a preset states, or that of the preset that it names; 0 if it
    states none.
    """
    cost = cli.preset_header(preset).cost
    other = re.match(r"that of (?:rung (\d)|flags/(\S+)\.flags)", cost)
    if not other:
        return flop(cost)
    folder = preset.partition("/")[0]
    number = other[1]
    rungs = (name for name in cli.preset_names() if name.startswith(f"{folder}/pretrain_{number}_"))
    return stated(next(rungs) if number else other[2])


def flop(cost: str) -> float:
    """The FLOP that the cost of a preset states: all settings of a search, then what follows; 0 if
    it states none.
    """
    search = re.search(
        rf"search of (\d+) settings.*?{FLOP} a setting(?:, then {FLOP.replace(' FLOP', '')})?", cost
    )
    if search:
        return int(search[1]) * float(search[2]) + float(search[3] or 0)
    found = re.findall(rf"about {FLOP}", cost)
    return float(found[-1]) if found else 0.0


def of_steps(commands: Sequence[Sequence[str]]) -> list[float]:
    """The FLOP of each command, 0 where no header states it and nothing can be counted; exports and
    reports cost none.

    Args:
      commands: words of `cpc-tf` each, in which an encoder's pre-training stands before what uses
        it.
    """
    encoders: dict[str, Settings] = {}  # folder of the module -> the settings of its pre-training
    found = []
    for task, *words in commands:
        config = cli.parse(TASKS[task].config, words) if task in TASKS else None
        if task == "pretrain":
            encoders[config.workdir.removesuffix("pretrain") + "hub"] = config
        found.append(_of_step(task, words, config, encoders) if config else 0.0)
    return found


def _of_step(
    task: str, words: Sequence[str], config: Settings, encoders: Mapping[str, Settings]
) -> float:
    given = dict(word.partition("=")[::2] for word in words)
    preset = given["--preset"]
    encoder = encoders.get(given.get("--encoder", ""))
    if task == "pretrain":
        usual = cli.parse(TASKS[task].config, [f"--preset={preset}"])
        return (
            stated(preset)
            * encoded(config, config, config.geometry)
            / encoded(usual, usual, usual.geometry)
        )
    if task == "linear" and encoder:
        geometry = config.geometry if config.probe.geometry_from == "flags" else encoder.geometry
        return encoded(config, encoder, geometry)
    if task == "efficient" and encoder:
        usual = cli.parse(TASKS[task].config, [f"--preset={preset}"])
        return (
            stated(preset)
            * _classified(config, encoder.encoder.encoder)
            / _classified(usual, LARGEST)
        )
    return stated(preset)


def encoded(config: Settings, encoder: Settings, geometry: GeometryConfig) -> float:
    """The FLOP of an encoder on all patches of all images of a training, forward."""
    images = config.training.steps(paper.IMAGES) * config.training.batch_size
    return images * geometry.grid**2 * forward(encoder.encoder.encoder, geometry.patch_size)


def _classified(config: Settings, encoder: str) -> float:
    """The FLOP of an encoder with the classifier's blocks on an image, forward."""
    side = config.images.image_size
    classifier = config.classifier
    inner = ARCHITECTURES[NETWORKS[encoder].of or encoder]
    blocks = (
        Stack(classifier.blocks, classifier.head_width // 4, classifier.head_width, 1),
    ) * bool(classifier.blocks)
    return forward(encoder, side) + _convolutions(
        inner.stacks[-1].width, -(-side // _stride(inner)), blocks
    )


def forward(encoder: str, side: int) -> float:
    """The FLOP of an encoder on a square of so many pixels a side: two for each product of its
    convolutions.
    """
    entry = NETWORKS[encoder]
    network = ARCHITECTURES[entry.of or encoder]
    side = -(-side // network.stem_stride)
    stem = 2.0 * side**2 * network.stem_kernel**2 * 3 * network.stem_width
    side = -(-side // 2) if network.stem_pool else side
    once = stem + _convolutions(network.stem_width, side, network.stacks)
    return 2 * once if entry.sees == "lab" else once


def _convolutions(width: int, side: int, stacks: Sequence[Stack]) -> float:
    """The FLOP of the blocks of stacks on a map of so many places a side and so many channels."""
    products = 0
    for stack in stacks:
        for block in range(stack.blocks):
            products += side**2 * width * stack.bottleneck
            if block == 0:
                side = -(-side // stack.stride)
                products += side**2 * width * stack.width  # of the shortcut
            products += side**2 * stack.bottleneck * (9 * stack.bottleneck + stack.width)
            width = stack.width
    return 2.0 * products


def _stride(network: Architecture) -> int:
    """The pixels from one place of a network's last map to the next."""
    stride = network.stem_stride * (2 if network.stem_pool else 1)
    for stack in network.stacks:
        stride *= stack.stride
    return stride
