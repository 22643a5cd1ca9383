"""Pictures that the runs drew themselves: augmented patches, nearest neighbours in feature space."""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.reporting import commands
from cpc_tf.reporting.blocks import Block, Details, Figure, Gap
from cpc_tf.reporting.collect import Run
from cpc_tf.reporting.methods import method, rung, without_seeds


def blocks(pretrain: Sequence[Run], linear: Sequence[Run]) -> list[Block]:
    """One of each encoder, the first open, the others behind a line. Gaps where there are none."""
    patches = _shown(
        [(run, run.picture("patches.png")) for run in sorted(pretrain, key=lambda run: rung(run) != "")],
        "patches",
        "Augmented patches as the encoder of {} saw them, and each primitive alone.",
        "A picture's patch grid, several augmented draws of it, and each augmentation alone at the ends of its range.",
    )
    cpc = [run for run in linear if method(run).role == "cpc"]
    neighbours = _shown(
        [(run, run.picture("linear.png")) for run in cpc],
        "neighbours",
        "Nearest training images in feature space ({}): green frame, same class; red frame, another.",
        "Test images, each beside the training images whose mean latents are nearest to its own, by encoder.",
    )
    made = {run.directory: run.file("run.flags") for run in [*pretrain, *cpc]}
    drawable = [run for run in pretrain if made[run.directory]]
    if not patches and drawable:
        output = f"{drawable[0].directory}/patches.png"
        command = commands.python(
            "cpc_tf.show_patches", [f"--flagfile={made[drawable[0].directory]}"], {"output": output}
        )
        patches = [Gap("No picture of augmented patches.", [command])]
    ended = [run for run in cpc if made[run.directory]]
    if not neighbours and ended:
        command = commands.python("cpc_tf.linear", [f"--flagfile={made[ended[0].directory]}"], {})  # it only draws
        neighbours = [Gap("No picture of nearest neighbours.", [command])]
    return [*patches, *neighbours]


def _shown(found: Sequence[tuple[Run, bytes]], name: str, title: str, alt: str) -> list[Block]:
    unique: dict[str, tuple[Run, bytes]] = {}
    for run, content in found:
        if content:
            unique.setdefault("/".join(without_seeds(run.place)), (run, content))
    figures = [
        Figure(f"{name}-{number + 1}", title.format(run.place), {"": (content, b"")}, alt)
        for number, (run, content) in enumerate(unique.values())
    ]
    more = [Details(f"{len(figures) - 1} more: {name}", figures[1:])] if len(figures) > 1 else []
    return [*figures[:1], *more]
