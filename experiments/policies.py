"""What each augmentation of the patches is worth: linear top-1 after equal pre-training with each policy.

    python -m experiments.policies --work=runs/policies --pictures=../shared/data/imagenette-224

Writes experiments/results/policies.json and prints its table. About 4 minutes a run and core.
"""

from __future__ import annotations

from absl import app, flags

from experiments import study

HALF = (
    "shear_x.limit=0.15,shear_y.limit=0.15,translate_x.limit=0.225,translate_y.limit=0.225,rotate.limit=15,"
    "solarize.lowest=128,posterize.fewest=6,contrast.spread=0.45,color.spread=0.45,brightness.spread=0.45,"
    "sharpness.spread=0.45"
)
POLICIES = {
    "none": ["--augment=none"],
    "v1": ["--augment=v1"],
    "colour_drop": ["--augment=colour_drop"],
    "full": ["--augment=full"],
    "the preset's": [],
}
# What of the full set costs accuracy at patches of 16 px: one part less at a time.
PARTS = {
    "full, AutoAugment at half its ranges": HALF,
    "full, no AutoAugment": "autoaugment=0",
    "full, no grey": "grey=0",
    "full, hue 0.05": "distort.hue=0.05",
    "full, no AutoAugment, no elastic": "elastic=0,autoaugment=0",
}


def runs(work: str, pictures: str, steps: int, seeds: int) -> list[study.Run]:
    """The policies on both datasets with all seeds, then the parts on photos with one."""
    short = [f"--train_steps={steps}", "--probe_every=0"]

    def run(dataset: str, policy: str, more: list[str], seed: int) -> study.Run:
        fields = {"dataset": dataset, "policy": policy, "seed": seed, "pretrain_steps": steps}
        folder = f"{work}/{dataset}/{policy.replace(' ', '_').replace(',', '')}/{seed}"
        name = "photos" if dataset == "photos" else "imagenette"
        data = [] if dataset == "photos" else [f"--dataset=folder:{pictures}"]
        steps_of = study.pretrained(folder, f"flags/{name}/pretrain.flags", [*data, *short, *more, f"--seed={seed}"])
        return study.Run(fields, [*steps_of, study.linear(folder, [f"--flagfile=flags/{name}/linear.flags", *data])])

    datasets = ["photos", *(["imagenette-224"] if pictures else [])]
    table = [(d, p, POLICIES[p], s) for s in range(seeds) for d in datasets for p in POLICIES]
    return [
        run(*row)
        for row in [
            *table,
            *(("photos", name, ["--augment=full", f"--augment_changes={text}"], 0) for name, text in PARTS.items()),
        ]
    ]


def main(_) -> None:
    """Runs what is missing; prints the table."""
    todo = runs(flags.FLAGS.work, flags.FLAGS.pictures, flags.FLAGS.steps, flags.FLAGS.seeds)
    print(study.table(study.carry_out("policies", todo), "policy", "dataset"))


if __name__ == "__main__":
    flags.DEFINE_string("work", "runs/policies", "folder of the runs")
    flags.DEFINE_string("pictures", "", "folder with train/CLASS/... and val/CLASS/...; empty: photos only")
    flags.DEFINE_integer("steps", 950, "steps of each pre-training")
    flags.DEFINE_integer("seeds", 2, "how many seeds")
    app.run(main)
