"""What pre-training on ImageNet needs on pods and GPUs, on paper: python -m benchmarks.scale

Computed from the records of compiled programs (`benchmarks.tpu`), the chips' figures and the
input's measured rate. A program for 16 images is scaled to the images of a device. Where a chip has
no record, operations are those of the program before it is compiled, and bytes those of another
chip's, which '~' marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import records
from benchmarks.chips import CHIPS, H100, Chip
from benchmarks.records import Record
from cpc_tf.core.texts import markdown_table

NETWORKS = {
    "ResNet-50": "imagenet/pretrain_resnet50 --norecompute",
    "ResNet-161": "imagenet/pretrain_resnet161 --recompute",
}
BATCH = 512
EPOCHS = 200
PICTURES = 1_281_167
REACHED = 0.4  # of what is possible: assumed, as usual for convolutions
# measured: python -m benchmarks.input --only=flags/imagenet/pretrain_resnet50.flags, a core of an
# AMD EPYC without AVX-512, 2026-11-26; several times slower without the C++ operation.
IMAGES_A_CORE = 165.0
RECORD = 110e3  # bytes of an image in ImageNet's records
INDEX = 20  # bytes an image: file, place and label, see `record_index.RecordIndex`


class Machine(NamedTuple):
    """Devices that train together."""

    name: str
    chip: str  # of the records; '' is none
    device: Chip
    devices: int
    hosts: int


MACHINES = [
    Machine("v3-32", "v3", CHIPS["v3"], 32, 4),
    Machine("v4-32", "v4", CHIPS["v4"], 16, 4),
    Machine("v5e-64", "v5e", CHIPS["v5e"], 64, 8),
    Machine("8 H100", "", H100, 8, 1),
]


class Step(NamedTuple):
    """A step on a machine, at best."""

    flop: float  # of a device
    bytes: float  # that a device moves
    memory: float | None  # bytes that a device needs, if a program of this size was compiled
    seconds: dict[str, float]  # by what limits it
    guessed: bool  # from another chip's program

    @property
    def limit(self) -> str:
        """What takes longest."""
        return max(self.seconds, key=self.seconds.get)

    @property
    def least(self) -> float:
        """Seconds of a step if nothing waits; exchanges follow the gradients."""
        return max(self.seconds["operations"], self.seconds["memory"]) + self.seconds["links"]


def step(found: Sequence[Record], network: str, machine: Machine) -> Step | None:
    """Returns a step of a network on a machine; None without a record of it."""
    own = [record for record in found if record["step"] == NETWORKS[network] and "flop" in record]
    exact = [record for record in own if record["chip"] == machine.chip]
    if not own:
        return None
    record = (exact or own)[0]
    factor = BATCH / machine.devices / record["images"]
    flop = record["flop"] * factor
    moved = record["bytes"] * factor
    sent = sum(each["bytes"] for each in record.get("exchanges", record["written"]))
    seconds = {
        "operations": flop / machine.device.peak,
        "memory": moved / machine.device.bandwidth,
        "links": 2 * sent * (1 - 1 / machine.devices) / machine.device.links,  # a ring
    }
    memory = records.needed(record) if exact and factor == 1 else None
    return Step(flop, moved, memory, seconds, not exact)


def training(found: Sequence[Record]) -> str:
    """Returns the table of the paper's training."""
    columns = [
        "",
        "on",
        "images",
        "TFLOP",
        "GB moved",
        "GB needed",
        "ms: operations, memory, links",
        "limit",
    ]
    columns += ["hours at best", f"hours at {100 * REACHED:.0f} %", "cores for input"]
    rows = []
    for network in NETWORKS:
        for machine in MACHINES:
            one = step(found, network, machine)
            if one is None:
                rows.append([network, machine.name, f"{BATCH // machine.devices}", *["-"] * 8])
                continue
            about = "~" if one.guessed else ""
            hours = EPOCHS * PICTURES / BATCH * one.least / 3600
            memory = "-" if one.memory is None else f"{one.memory / records.GB:.1f}"
            rows.append(
                [
                    network,
                    machine.name,
                    f"{BATCH // machine.devices}",
                    f"{one.flop / records.TERA:.1f}",
                    f"{about}{one.bytes / records.GB:.0f}",
                    f"{memory} of {machine.device.memory / records.GB:.0f}",
                    about + ", ".join(f"{1000 * seconds:.0f}" for seconds in one.seconds.values()),
                    one.limit,
                    f"{about}{hours:,.0f}",
                    f"{about}{hours / REACHED:,.0f}",
                    f"{BATCH / one.least * REACHED / IMAGES_A_CORE:.0f}",
                ]
            )
    return markdown_table(columns, rows)


def growth(found: Sequence[Record]) -> str:
    """Returns the table of an epoch of more images on the first machine."""
    machine = MACHINES[0]
    columns = [
        "images",
        "steps an epoch",
        *(f"{network}, hours an epoch" for network in NETWORKS),
    ]
    columns += ["GB read by a host an epoch", "MB of index for few labels"]
    rows = []
    for pictures in (PICTURES, 14_000_000, 300_000_000):
        steps = pictures // BATCH
        hours = []
        for network in NETWORKS:
            one = step(found, network, machine)
            hours.append(f"{steps * one.least / REACHED / 3600:,.1f}" if one else "-")
        read = pictures * RECORD / machine.hosts / records.GB
        index = pictures * INDEX / 1e6
        rows.append([f"{pictures:,}", f"{steps:,}", *hours, f"{read:,.0f}", f"{index:,.0f}"])
    return markdown_table(columns, rows)


if __name__ == "__main__":
    print(f"{training(records.read(records.FILE))}\n\n{growth(records.read(records.FILE))}")
