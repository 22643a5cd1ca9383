"""Reads the results below a directory; the names of their datasets, and the lengths of their
presets.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.settings import ConfigError
from cpc_tf.data import names
from cpc_tf.data.reference import DataRef
from cpc_tf.encoders.card import Identity
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.counts import ClassCount

LARGEST = 32 * 2**20  # bytes of a file that is read
# Folder of presets -> the datasets that its presets are made for: of TFDS and embedded ones the
# text before '/' or ':', of 'folder:PATH' and 'voc:PATH' the kind and the last component of the
# path.
MADE_FOR = {
    "imagenet": ("imagenet2012", "imagenet2012_subset", "imagenet"),
    "imagenette": (
        *("imagenette", "imagenette-224", "folder:imagenette-224", "folder:imagenette2"),
        *("folder:imagenette2-160", "folder:imagenette2-320"),
    ),
    "photos": ("photos",),
    "collages": ("collages",),
    "voc": ("voc", "voc:VOC2007", "voc:VOC2012"),
    "bccd": ("bccd-voc", "voc:bccd-voc", "voc:BCCD"),
}
LARGER = "-128px"  # ends a study's name of a dataset whose presets' names end likewise


def is_number(value: Any) -> bool:
    """Returns whether it is a finite number of a usable size."""
    # NaN: false
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e30 < value < 1e30


def _all(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(x, kind) for x in values)


def _is_identity(value: Any) -> bool:
    if not isinstance(value, dict) or "trained_by" not in value:
        return False
    fields = dataclasses.asdict(Identity.from_json(value))
    numbers = [fields.pop(name) for name in ("seed", "parameters", "steps")]
    return _all(str, list(fields.values())) and all(x is None or is_number(x) for x in numbers)


def _is_curve(value: Any) -> bool:
    return _all(dict, value) and all(
        isinstance(point.get("arm"), str)
        and type(point.get("labels")) is int
        and point["labels"] > 0
        and _is_share(point.get("top1"))
        for point in value
    )


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def _is_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _is_share(value.get(name, 0)) for name in ("top1", "top5")
    )


def _is_folds(value: Any) -> bool:
    return isinstance(value, dict) and all(
        type(value.get(name)) is int for name in ("folds", "repeats")
    )


def _is_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(counts, dict)
        and counts.keys() == {*ClassCount._fields[1:]}
        and all(type(x) is int and x >= 0 for x in counts.values())
        for counts in value.values()
    )


def _is_levels(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and len(value) == 2 and all(map(is_number, value))
    )


def _is_best_f1(value: Any) -> bool:
    counts = ("right", "boxes", "objects")
    return (
        isinstance(value, dict)
        and all(type(value.get(name)) is int and value[name] >= 0 for name in counts)
        and all(
            is_number(value.get(name)) and 0 <= value[name] <= 1
            for name in ("score", "precision", "recall")
        )
    )


# Fields of a record, which anyone may have written: (names, kind of value, whether a value is of
# it).
FIELDS = [
    ("dataset encoder backbone run propagation test_split rung", "a text",
     lambda x: isinstance(x, str)),
    ("step steps most_steps wall_seconds seed", "a number", is_number),
    ("top1 top5 top1_low top1_high map map_chance micro_f1 map11 map_all map50 map50_95 iou "
     "class_mean largest_class",
     "a fraction from 0 to 1", _is_share),
    ("label_fraction", "a positive number", lambda x: is_number(x) and x > 0),
    ("num_classes num_train_labels tested images test_images test_boxes parameters",
     "a positive integer", lambda x: is_number(x) and isinstance(x, int) and x > 0),
    ("class_names settings", "a list of texts", lambda x: _all(str, x)),
    ("search", "a list of records", lambda x: _all(dict, x)),
    ("head_blocks", "a number of blocks", lambda x: type(x) is int and 0 <= x < 1e6),
    ("made", "texts by name", lambda x: isinstance(x, dict) and _all(str, [*x.values()])),
    ("phases", "records by name", lambda x: isinstance(x, dict) and _all(dict, [*x.values()])),
    ("classes", "counts by class", _is_counts),
    ("curve", "accuracies by arm and labels", _is_curve),
    ("cross_validation", "numbers of folds and repeats", _is_folds),
    ("levels", "two numbers", _is_levels),
    ("best_f1", "a score and what is found at it", _is_best_f1),
    ("identity", "an identity", _is_identity),
    ("by_channel", "scores from 0 to 1", _is_scores),
]  # fmt: skip
KINDS = {name: (kind, is_one) for names, kind, is_one in FIELDS for name in names.split()}
# of every record; the module of its report adds its NEEDS
REQUIRED = (
    "dataset",
    "encoder",
    "identity",
)
ANY = "a value", lambda x: x is not None


class Run(collections.UserDict):
    """The record of a result.json.

    Attributes:
      place: where it lies below the searched directory.
      directory: of the run; '' if the record stands in a list.
      dataset_title: the name of its dataset on the page, and of the split of its test if there are
        several.
      repeats: places of runs that have the same settings, seed, data and figures.
      unclear: whether several datasets of the page have the name that the encoder's card gives for
        its own.
    """

    unclear = False
    repeats: tuple[str, ...] = ()

    def __init__(self, record: Mapping[str, Any], place: str, directory: str = ""):
        super().__init__(record)
        self.place = place
        self.directory = directory
        self.dataset_title = dataset_name(str(self.get("dataset", "")))

    @property
    def identity(self) -> Identity:
        """The identity of its encoder."""
        return Identity.from_json(self["identity"])

    @property
    def path(self) -> str:
        """Its directory, with '?' for bytes in its name that are no text."""
        return self.directory.encode("utf-8", "replace").decode()

    @property
    def test_split(self) -> str:
        """The split that it was tested on; '' if none is known."""
        return self.get("test_split", "")

    @property
    def rung(self) -> str:
        """The step of a ladder that its encoder is, in a study or by --rung; '' if it is none."""
        return self.get("rung") or self.identity.rung

    @property
    def about(self) -> dict[str, str]:
        """The texts of its run.json and of how it was 'made': versions, commit, machine, when it
        began and ended.
        """
        try:
            about = _from_json(self.text("run.json"))
        except ValueError:
            about = None
        texts = (
            {name: x for name, x in about.items() if isinstance(x, str)}
            if isinstance(about, dict)
            else {}
        )
        return {**texts, **self.get("made", {})}

    @property
    def fraction(self) -> float:
        """The fraction of the labels, rounded so that equal ones compare equal."""
        return float(f"{self.get('label_fraction', 1.0):.4g}")

    def read(self, name: str) -> bytes:
        """Returns the content of a file of the run; b'' if it cannot be read."""
        try:
            return _read(os.path.join(self.directory, name)) if self.directory else b""
        except (tf.errors.OpError, OSError):
            return b""

    def text(self, name: str) -> str:
        """Returns the content of a text file of the run."""
        return self.read(name).decode("utf-8", "replace")

    def png(self, name: str) -> bytes:
        """Returns an image of the run; b'' if it has none."""
        content = self.read(name)
        return content if content[1:4] == b"PNG" else b""

    def metrics(self, phase: str = "") -> list[dict[str, float]]:
        """Returns the records of a phase's metrics.jsonl that have a step, with their finite
        numbers.
        """
        records = []
        for line in self.text(os.path.join(phase, "metrics.jsonl")).splitlines():
            try:
                record = _from_json(line)
            except ValueError:
                continue  # a last line that a kill cut short
            records.append(
                {n: x for n, x in record.items() if is_number(x)}
                if isinstance(record, dict)
                else {}
            )
        return [record for record in records if "step" in record]


def run_id(directory: str) -> str:
    """Returns a digest of a run's run.flags, which name all settings; '' if there are none."""
    flags = Run({}, "", directory).read("run.flags")
    return hashlib.sha256(flags).hexdigest()[:16] if flags else ""


def collect(runs_dir: str, reports: Mapping[str, Any]) -> tuple[list[Run], list[str]]:
    """Returns all results below a directory, and a line for each file that could not be read;
    follows no links.

    `reports`: kind of result -> the module of its report, which has the names of the fields that it
    needs as NEEDS.

    Raises:
      ConfigError: if there is no such directory, or no result in it.
    """
    if not runs_dir or not tf.io.gfile.isdir(runs_dir):
        raise ConfigError(
            "runs", runs_dir, "no such directory; name one that holds runs, e.g. --runs=runs"
        )
    runs = []
    problems = []
    for path in _json_files(runs_dir):
        place = os.path.relpath(path, runs_dir).encode("utf-8", "replace").decode()
        is_result = os.path.basename(path) == "result.json"
        try:
            content = _from_json(_read(path).decode("utf-8-sig", "replace"))
        except (ValueError, OSError, tf.errors.OpError) as error:
            problems += (
                [f"{place}: cannot be read ({str(error).splitlines()[0]})"] if is_result else []
            )
            continue
        if is_result:
            records = {place: content}
        elif isinstance(content, list) and any(
            isinstance(x, dict) and "kind" in x for x in content
        ):
            records = {f"{place}, record {index}": record for index, record in enumerate(content)}
        else:
            records = {}
        for at, record in records.items():
            if fault := _fault(record, reports):
                problems.append(f"{at}: {fault}")
            elif is_result:
                runs.append(Run(record, os.path.dirname(at) or ".", os.path.dirname(path)))
            else:
                runs.append(Run(record, at))
    if not runs:
        unread = (
            f" ({len(problems)} could not be read, the first: {problems[0]})" if problems else ""
        )
        raise ConfigError(
            "runs", runs_dir, f"no result.json below it{unread}; `make demo` makes the first"
        )
    # Each run once; the fields that a study's record adds go to the run that it names.
    unique: dict[Any, Run] = {}
    for run in sorted(runs, key=lambda run: not run.directory):
        key = run.get("run") or run_id(run.directory) or id(run)
        unique.setdefault(key, run).update(run)
    return [*unique.values()], problems


def _fault(record: Any, reports: Mapping[str, Any]) -> str:
    """Returns why a record cannot be shown, or ''."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in reports:
        return f"kind {kind!r} is not known here (known: {', '.join(reports)})"
    multi_label = label_kinds.is_multi_label(record)  # has another main score
    needed = [
        *REQUIRED,
        *("map" if multi_label and name == "top1" else name for name in reports[kind].NEEDS),
    ]
    for name in dict.fromkeys([*needed, *(name for name in record if name in KINDS)]):
        (wanted, is_one), value = KINDS.get(name, ANY), record.get(name)
        if not is_one(value):
            return f"{name} is {'missing' if value is None else repr(value)[:40]}, not {wanted}"
    return ""


def _json_files(folder: str) -> Iterator[str]:
    """Yields *.json files below a directory in order, without hidden folders."""
    # follows no links
    for here, folders, files in tf.io.gfile.walk(folder) if "://" in folder else os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(here, name) for name in sorted(files) if name.endswith(".json"))


def _from_json(text: str) -> Any:
    """Parses JSON, with '?' for characters that cannot be encoded.

    Raises:
      ValueError: it is not JSON, is nested too deeply, or has a number of thousands of digits.
    """
    try:
        return json.loads(
            json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace")
        )
    except RecursionError as error:
        raise ValueError("it nests too deep") from error


def _read(path: str) -> bytes:
    """Returns the content of a file. Raises OSError if it is a link, no file, or larger than
    LARGEST.
    """
    bucket = "://" in path
    if not bucket and (os.path.islink(path) or not os.path.isfile(path)):
        raise OSError("no file of its own")
    # TensorFlow reads only paths in UTF-8.
    with tf.io.gfile.GFile(path, "rb") if bucket else open(path, "rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise OSError(f"larger than {LARGEST:,} bytes")
    return content


def dataset_name(dataset: str) -> str:
    """Returns a short name: 'photos' for 'photos/15200', that of a folder (see `of_folder`), others
    unchanged.
    """
    named = DataRef.parse(dataset)
    if named.kind:
        return names.of_folder(named.path) or dataset
    return "photos" if dataset.startswith("photos/") else dataset


def dataset_id(dataset: str) -> str:
    """Returns a unique name: a folder's whole path; 'photos' for all 'photos/N', which have the
    same labels.
    """
    named = DataRef.parse(dataset)
    if not named.kind or not named.path:
        return dataset_name(dataset)
    if "://" in named.path:
        return str(DataRef(named.kind, named.path.rstrip("/")))
    return str(DataRef(named.kind, os.path.realpath(os.path.expanduser(named.path))))


def dataset_titles(datasets: Iterable[str]) -> dict[str, str]:
    """Returns {--dataset: unique name}: the short name, or the unique one if several have the short
    one.
    """
    ids = {dataset: dataset_id(dataset) for dataset in datasets}
    short = [dataset_name(each) for each in {*ids.values()}]
    return {
        d: dataset_name(each) if short.count(dataset_name(each)) == 1 else each
        for d, each in ids.items()
    }


def own_preset(dataset: str, *tasks: str) -> str:
    """Returns the first preset of these names made for a dataset, e.g. 'photos/linear', or ''."""
    named = DataRef.parse(dataset)
    if named.kind and named.path:
        made_for = str(DataRef(named.kind, dataset_name(dataset)))
        ending = ""
    else:
        made_for = named.builder.split("/")[0].removesuffix(LARGER)
        ending = "_128px" if named.builder.endswith(LARGER) else ""
    folders = [folder for folder, datasets in MADE_FOR.items() if made_for in datasets]
    candidates = [f"{folder}/{task}{ending}" for folder in folders for task in tasks]
    return next((name for name in candidates if name in cli.preset_names()), "")


def shorter(config_class: type, preset: str, steps: int, images: int) -> str:
    """Returns "short run (10 of the preset's 625 steps)" if a run on so many images is one, else
    ''.
    """
    full = (
        cli.parse(config_class, [f"--preset={preset}"]).training.steps(images)
        if preset and images
        else 0
    )
    return f"short run ({steps:,} of the preset's {full:,} steps)" if 0 < steps < full else ""


def remarks(*texts: str) -> str:
    """Returns the texts as one, each once, without empty ones."""
    return "; ".join(dict.fromkeys(filter(None, texts)))
