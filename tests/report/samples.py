"""Directories of runs, as the binaries leave them, and what the report makes of them as texts."""

import json

from cpc_tf.report.blocks import text
from cpc_tf.report.runs import Run

CLASSES = ["cat", "dog", "a <b> & $c$", "hen", "owl", "pig"]
PIXELS = {0.01: 0.3, 0.1: 0.5, 1.0: 0.7}
CPC = {0.01: 0.6, 0.1: 0.8, 1.0: 0.9}


def write(folder, record, **files):
    """A run: result.json and other files (a dot in a name is two underscores)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(record))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


def identity(encoder, seed=0, trained_by=""):
    known = {"pixels": "pixels", "random": "untrained"}
    by = trained_by or known.get(encoder.split(":")[0], "cpc")
    parameters = None if by == "pixels" else 218048
    module = "" if by == "pixels" else encoder.split("/")[-1]
    values = {
        "architecture": "small",
        "dataset": "photos/100",
        "seed": seed,
        "parameters": parameters,
    }
    return {
        "trained_by": by,
        "method": "CPC v2" if by in ("cpc", "cpc+labels") else "",
        **values,
        "module": module,
    }


def efficient(
    encoder="runs/photos/hub", fraction=0.1, top1=0.5, seed=0, steps=3000, trained_by="", **more
):
    phases = {"supervised": {"top1": top1, "top5": 0.9, "steps": steps}}
    if encoder != "pixels":
        frozen = {"top1": top1 - 0.1, "top5": 0.8, "steps": steps}
        phases = {"frozen": frozen, "fine-tuned": {"top1": top1, "top5": 0.9, "steps": 100}}
    trial = {
        "phase": next(iter(phases)),
        "learning_rate": 0.1,
        "held_out_top1": 0.5,
        "chosen": True,
    }
    return {
        "kind": "efficient",
        "encoder": encoder,
        "identity": identity(encoder, seed, trained_by),
        "backbone": "small",
        "dataset": "photos",
        "num_classes": 6,
        "class_names": CLASSES,
        "label_fraction": fraction,
        "num_train_labels": round(1000 * fraction),
        "seed": seed,
        "top1": top1,
        "top5": min(1, top1 + 0.1),
        "loss": 1.0,
        "phases": phases,
        "search": [trial],
        **more,
    }


def linear(encoder="runs/photos/hub", top1=0.9, seed=0, trained_by="", **more):
    return {
        "kind": "linear",
        "encoder": encoder,
        "identity": identity(encoder, seed, trained_by),
        "dataset": "photos",
        "num_classes": 6,
        "num_train_labels": 1000,
        "label_fraction": 1.0,
        "seed": seed,
        "top1": top1,
        "top5": 1.0,
        "test_split": "test",
        "loss": 0.5,
        "steps": 2375,
        **more,
    }


def detect(encoder="runs/photos/hub", map11=0.5, seed=0, trained_by="", **more):
    return {
        "kind": "detect",
        "dataset": "voc",
        "encoder": encoder,
        "identity": identity(encoder, seed, trained_by),
        "map11": map11,
        "seed": seed,
        **more,
    }


def pretrain(seed=0, **more):
    return {
        "kind": "pretrain",
        "dataset": "photos/100",
        "encoder": "small",
        "identity": identity("", seed),
        "seed": seed,
        "images": 100,
        "parameters": 1000,
        "step": 30,
        "loss": 9.0,
        "accuracy": 0.1,
        "bound": 1.0,
        "wall_seconds": 60.5,
        **more,
    }


def metrics(steps=(10, 20, 30), **more):
    records = [{"step": s, "loss": 10 - s / 30, "accuracy": s / 100, **more} for s in steps]
    return "".join(json.dumps(record) + "\n" for record in records)


def all_kinds(folder):
    """Every kind of run, with gaps: pixels at 10 % have two seeds, CPC lacks 10 %; one record of a
    study.
    """
    pairs = [(0, 0), (1, 1), (2, 1), (2, 2)]
    lines = [f"{CLASSES[label]},{CLASSES[guess]}\n" for label, guess in pairs]
    table = "class,prediction\n" + "".join(lines)
    for fraction, top1 in CPC.items():
        if fraction != 0.1:
            stack = {"head_blocks": 11, "parameters": 197_000_000}
            record = efficient(fraction=fraction, top1=top1, **stack)
            write(folder / f"photos/efficient/cpc_{fraction}", record, predictions__csv=table)
    for fraction, top1 in PIXELS.items():
        write(folder / f"photos/efficient/pixels_{fraction}", efficient("pixels", fraction, top1))
    write(folder / "photos/efficient/pixels_0.1_seed1", efficient("pixels", 0.1, 0.52, seed=1))
    for encoder, top1 in (
        ("runs/photos/hub", 0.9),
        ("random:runs/photos/hub", 0.8),
        ("pixels", 0.4),
    ):
        name = encoder.split(":")[0].replace("/", "_")
        write(folder / f"photos/linear/{name}", linear(encoder, top1), metrics__jsonl=metrics())
    sick = metrics(
        feature_std=0.001, effective_rank=1.1, bound=0.1, gradient_norm=1.0, images_per_second=9.0
    )
    write(
        folder / "photos/pretrain",
        pretrain(),
        metrics__jsonl=sick + '{"step": 4',
        run__flags="--seed=0\n",
    )
    rungs = (
        ("1_v1/0", 0.6, "CPC v1"),
        ("1_v1/1", 0.7, "CPC v1"),
        ("3_bu", 0.7, "CPC, 2 directions"),
    )
    for place, top1, method in rungs:
        of = {**identity("x", int(place[-1] == "1")), "method": method, "rung": place.split("/")[0]}
        about = {"test_split": "train[:10]", "made": {"date": "2026-11-20", "commit": "1a2b3c4d"}}
        write(
            folder / f"ladder/{place}",
            linear(f"runs/ladder/{place}/hub", top1, identity=of, **about),
        )
    write(folder / "ladder/study", linear("runs/ladder/hub", 0.75, rung="BU"))
    write(folder / "voc/cpc", detect())
    write(folder / "unknown", {"kind": "dance"})
    (folder / "broken").mkdir()
    (folder / "broken/result.json").write_text('{"kind": ')


PNG = b"\x89PNG\r\n"


def odd_kinds(folder):
    """What `all_kinds` lacks: few test images, odd names, several labels, two phases of boxes,
    images of runs.
    """
    for seed in (0, 1):
        few = folder / f"few/{seed}"
        classes = {
            "<i>cat</i>": {"tested": 19, "predicted": 20, "right": 19},
            "dog": {"tested": 1, "predicted": 0, "right": 0},
        }
        about = {"tested": 20, "class_mean": 0.5, "largest_class": 0.95, "classes": classes}
        table = "file,class,prediction,probability\na/1.png,cat,dog,0.9031\na/2.png,hen,hen,0.4\n"
        record = efficient(seed=seed, top1=0.95, dataset="folder:/x/<b>birds", **about)
        write(
            few,
            record,
            predictions__csv=table,
            run__flags=f"--seed={seed}\n",
            map__csv="x,y,label\n0.5,1.5,2\n",
        )
        for name in ("predictions", "map"):
            (few / f"{name}.png").write_bytes(PNG + f"{name} {seed}".encode())
        for phase in ("frozen", "fine-tuned"):
            (few / phase).mkdir()
            (few / phase / "metrics.jsonl").write_text(metrics())
    for kind in (linear, efficient):
        record = {
            **kind(dataset="folder:/x/multi"),
            "multi_label": True,
            "phases": {},
            "search": [],
        }
        record = {name: value for name, value in record.items() if name not in ("top1", "top5")}
        scores = {"map": 0.6, "micro_f1": 0.5, "map_chance": 0.2, "tested": 50}
        write(folder / f"multi/{kind.__name__}", {**record, **scores})
    phases = {"frozen": {"map11": 0.4, "steps": 300}, "fine-tuned": {"map11": 0.5, "steps": 90}}
    lengths = {"steps": 390, "most_steps": 450, "images": 600, "test_images": 8, "test_boxes": 24}
    best = {"score": 0.6, "right": 18, "boxes": 20, "objects": 24, "precision": 0.9, "recall": 0.75}
    lengths |= {"map50_95": 0.25, "best_f1": best}
    write(folder / "boxes", detect(dataset="collages", phases=phases, **lengths))
    for name in ("sheet", "curves"):
        (folder / f"boxes/{name}.png").write_bytes(PNG + name.encode())
    for name, top1 in (("a", 0.8), ("b", 0.9), ("c", 0.7)):  # of folders without a preset
        write(
            folder / f"owls/{name}",
            linear(f"runs/{name}/hub", top1, steps=10, dataset="folder:/x/owls"),
        )
        (folder / f"owls/{name}/linear.png").write_bytes(PNG + name.encode())
    for place, seed in (("moths/0", 0), ("moths/1", 1), ("other/0", 0)):
        steps = 30 + place.startswith("other")
        write(
            folder / place,
            pretrain(seed=seed, dataset="moths", step=steps, effective_rank=float("nan")),
        )
        (folder / place / "patches.png").write_bytes(PNG + place.encode())
    short = linear(top1=0.5, steps=10, num_classes=5, dataset="imagenet2012")
    del short["top5"]  # of few classes there is none
    write(folder / "short", short)
    write(folder / "uda", efficient("pixels", 0.1, 0.45, propagation="uda"))
    # records without directories
    study = [
        linear(policy="none"),
        pretrain(seed=4, dataset="study"),
    ]
    (folder / "study.json").write_text(json.dumps(study))


def run(record, place="x"):
    """A result that stands in no directory."""
    return Run(record, place)


def blocks(parts, subject):
    """What some parts contribute to a subject of the page."""
    return [block for part in parts if part.name == subject for block in part.blocks]


def rows(table, source):
    """{first cell: the others as texts}; of rows with one name the first."""
    found = {}
    for row in table.rows:
        if row.get("source", "measured") == source:
            name, *cells = map(row.get, table.columns)
            found.setdefault(name, [*map(text, cells)])
    return found
