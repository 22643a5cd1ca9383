"""The eight rungs of Fig. 3 on the embedded photographs: linear top-1 of each after equal pre-training.

    python -m experiments.ladder --work=runs/ablation

Writes experiments/results/ladder.json and prints its table. A few minutes a run and core.
"""

from __future__ import annotations

import pathlib

from absl import app, flags

from experiments import study

PRESETS = pathlib.Path(__file__).parent.parent / "flags" / "ablation"


def runs(work: str, seeds: int) -> list[study.Run]:
    """All rungs with the first seed, then with the others."""
    found = []
    for seed in range(seeds):
        for preset in sorted(PRESETS.glob("pretrain_*.flags")):
            name = preset.stem[len("pretrain_") :]  # 1_v1, 2_mc, ...
            rung = name.split("_")[1]
            folder = f"{work}/{seed}/{name}"
            fields = {"rung": rung if rung == "v1" else rung.upper(), "seed": seed}
            steps = study.pretrained(folder, f"flags/ablation/{preset.name}", [f"--seed={seed}"])
            found.append(study.Run(fields, [*steps, study.linear(folder, ["--flagfile=flags/photos/linear.flags"])]))
    return found


def main(_) -> None:
    """Runs what is missing; prints the table."""
    print(study.table(study.carry_out("ladder", runs(flags.FLAGS.work, flags.FLAGS.seeds)), "rung", "dataset"))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/ablation", "folder of the runs")
    flags.DEFINE_integer("seeds", 3, "how many seeds")
    app.run(main)
