"""What each augmentation of the patches is worth: linear top-1 after equal pre-training with each
policy.

    python -m studies augmentation

A run takes about four minutes on a core.
"""

from __future__ import annotations

from collections.abc import Sequence

from studies import runner, tables

STEPS = 950
SEEDS = 2

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


def runs(places: runner.Places) -> list[runner.Run]:
    """The policies on both datasets with all seeds, then the parts on photos with one."""

    def run(dataset: str, policy: str, more: list[str], seed: int) -> runner.Run:
        fields = {"dataset": dataset, "policy": policy, "seed": seed, "pretrain_steps": STEPS}
        named = policy.replace(" ", "_").replace(",", "")
        folder = f"{places.work}/augmentation/{dataset}/{named}/{seed}"
        name, data = (
            ("photos", [])
            if dataset == "photos"
            else ("imagenette", [f"--dataset=folder:{places.pictures}"])
        )
        more = [*data, f"--train_steps={STEPS}", "--probe_every=0", *more, f"--seed={seed}"]
        before = runner.pretrained(folder, f"flags/{name}/pretrain.flags", more)
        return runner.Run(
            fields,
            [*before, runner.linear(folder, [f"--flagfile=flags/{name}/linear.flags", *data])],
        )

    datasets = ("photos", "imagenette-224")
    policies = [
        run(d, p, more, seed)
        for seed in range(SEEDS)
        for d in datasets
        for p, more in POLICIES.items()
    ]
    changed = {
        name: ["--augment=full", f"--augment_changes={text}"] for name, text in PARTS.items()
    }
    return policies + [run("photos", name, more, 0) for name, more in changed.items()]


def table(records: Sequence[dict]) -> str:
    """Top-1 of each policy."""
    return tables.table(records, ["policy"], "dataset")
