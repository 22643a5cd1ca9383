"""Which images to label first? The orders of `cpc-tf label`, with a simulated person who knows the
truth.

    python -m studies label

On the frozen features of the released module; five seeds, each with another four fifths of the
training images.
"""

from __future__ import annotations

from collections.abc import Sequence

from cpc_tf.core.texts import markdown_table
from cpc_tf.label.order import ORDERS
from studies import runner
from studies.label.simulate import DEFAULT, NUMBERS
from studies.tables import spread

SEEDS = 5


def runs(places: runner.Places) -> list[runner.Run]:
    """All orders of both datasets with the first seed, then with the others."""
    datasets = {"imagenette-224": f"folder:{places.pictures}", "photos": "photos"}
    return [
        _run(places.work, *dataset, name, seed)
        for seed in range(SEEDS)
        for dataset in datasets.items()
        for name in (DEFAULT, *ORDERS)
    ]


def _run(work: str, title: str, dataset: str, name: str, seed: int) -> runner.Run:
    output = f"{work}/label/{title}/{name}/{seed}/result.json"
    command = [
        "studies.label.simulate",
        f"--dataset={dataset}",
        f"--order={name}",
        f"--seed={seed}",
    ]
    return runner.Run(
        {"dataset": title, "order": name, "seed": seed},
        [([*command, f"--output={output}"], output)],
    )


def table(records: Sequence[dict]) -> str:
    """Top-1 on the test in percent by the number of labels; of the default also how far the stated
    accuracy is off.
    """
    rows = []
    for dataset in dict.fromkeys(record["dataset"] for record in records):
        for name in (DEFAULT, *ORDERS):
            found = [r["at"] for r in records if (r["dataset"], r["order"]) == (dataset, name)]
            if not found:
                continue
            columns = [[each[str(number)] for each in found] for number in NUMBERS]
            rows.append(
                [dataset, name, *(spread(one["top1"] for one in column) for column in columns)]
            )
            if name == DEFAULT:
                said = [
                    [one for one in column if one.get("stated") is not None] for column in columns
                ]
                off = [spread(one["stated"] - one["top1"] for one in column) for column in said]
                rows.append([dataset, "what the page states, minus this", *off])
    return markdown_table(["top-1, %", "order", *(f"{number} labels" for number in NUMBERS)], rows)
