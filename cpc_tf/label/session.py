"""What the page asks for and what it changes: the labels, the images to label next, the state of
the classifier.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from cpc_tf.classify import logistic, random_sample
from cpc_tf.core.files import reason
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.versions import print_bug
from cpc_tf.data import names
from cpc_tf.data.labels import MODEL
from cpc_tf.drawing import map as embedding_map
from cpc_tf.encoders.card import parted
from cpc_tf.label import finish, guesses, order
from cpc_tf.label.config import LabelConfig
from cpc_tf.label.gallery import Gallery
from cpc_tf.label.guesses import Figures, Guesses
from cpc_tf.label.table import Label, Labels, LabelTable, check_classes

_ALIVE = 15  # seconds since its last request in which a page counts as open
_PATIENCE = (
    3  # seconds that a request for the next images waits for the classifier of the last labels
)
# Colours of classes, which then repeat: those of the reports, and some more of the same kind.
_COLORS = (
    "#0b5cad",
    "#d55e00",
    "#1b9e9e",
    "#b0579a",
    "#5f8a1f",
    "#c62828",
    "#6a3d9a",
    "#a65628",
    "#2b9bc4",
    "#8a6d00",
)


class TakenOver(Exception):
    """Another page is open on the same labels."""


class Session:
    """The state that the page shows. All methods may be called from several threads.

    Args:
      config: the settings.
      gallery: the images with their features.

    Raises:
      ConfigError: the table of labels cannot be read.
    """

    def __init__(self, config: LabelConfig, gallery: Gallery):
        self.config = config
        self.gallery = gallery
        self._names = gallery.pictures.names
        self._sample = random_sample.of(self._names, config.seed)
        self._index = {name: i for i, name in enumerate(self._names)}
        folder = os.path.expanduser(config.pictures)
        self.table = LabelTable(
            os.path.expanduser(config.labels), self._names, folder if os.path.isdir(folder) else ""
        )
        if not config.multi_label and any(
            len(label.classes) != 1 for label in self.table.of.values()
        ):
            raise ConfigError(
                "labels",
                config.labels,
                "has images with several classes or none: add --multi_label",
            )
        self._remarks: list[str] = []
        self._page = ""
        self._seen = -math.inf
        # Images that were shown and not labelled: others come first. Those of the random sample
        # come again at once.
        self._put_off: set[int] = set()
        self._gone: set[int] = set()  # images whose file is no longer there
        self._last_shown: list[int] = []
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        # States of the labels are numbered: the one that is wanted, and those that guesses and
        # figures are of.
        self._wanted = int(bool(self.table.of))
        self._guessed = 0
        self._measured = 0
        self._guesses: Guesses | None = None
        self._figures: Figures | None = None
        self._map: np.ndarray | None = None
        # in the order of their keys; one that loses its images stays
        self._classes = self.table.classes
        threading.Thread(target=self._work, daemon=True).start()

    # ---- the page

    def claim(self, page: str, force: bool) -> dict[str, Any]:
        """A page begins. Raises TakenOver if another one is open, unless `force`."""
        with self._lock:
            if page != self._page and not force and time.monotonic() - self._seen < _ALIVE:
                raise TakenOver(
                    "these labels are open on another page; close that one, or use this page"
                    " instead"
                )
            self._page = page
            self._put_off -= {*self._last_shown}
            return self.state(page)

    def state(self, page: str) -> dict[str, Any]:
        """What the head of the page shows; a sign of life of the page."""
        with self._lock:
            if page == self._page:
                self._seen = time.monotonic()
                self._refresh()
            figures, (undo, redo) = self._figures, self.table.steps
            given = self._labels()
            accepted = sum(label.by == MODEL for label in given.values())
            return {
                "folder": self.config.pictures,
                "table": self.config.labels,
                "pictures": len(self._names) - len(self._gone),
                "labelled": len(given) - accepted,
                "accepted": accepted,
                "multi_label": self.config.multi_label,
                "classes": self._class_records(),
                "undo": undo,
                "redo": redo,
                "figures": figures._asdict() if figures else None,
                "pending": self._measured < self._wanted,
                "version": self._guessed,
                "remarks": [*self._remarks, *self._notes()],
                "broken": [{"file": name, "why": why} for name, why in self.gallery.broken.items()],
            }

    # ---- changes, which need the page that has claimed the labels

    def label(
        self, page: str, indices: Sequence[int], how: str, name: str, by: str
    ) -> dict[str, Any]:
        """Changes the labels of images; `how`: set, add, remove, clear or none.

        Raises:
          TakenOver: another page has claimed the labels.
          ConfigError: the class cannot have this name, or it would be several classes of an image.
          NotWritten: the table cannot be written.

        Returns:
          The new state, with "class": how the class is spelled, and "gone": which of the images are
          no longer there.
        """
        there = [i for i in indices if self.is_there(i)]
        with self._lock:
            self._check(page)
            name = self._spelled(name, self._classes)
            if how in ("add", "remove", "none") and not self.config.multi_label:
                raise ConfigError(
                    "an image has one class here; start cpc-tf label with --multi_label for several"
                )
            change: dict[str, Label | None] = {}
            for file in (self._names[i] for i in there):
                before = self.table.of[file].classes if file in self.table.of else ()
                rest = tuple(each for each in before if each != name)
                classes = {
                    "set": (name,),
                    "add": (*before, name) if name not in before else before,
                    "none": (),
                }
                if how == "clear" or (how == "remove" and not rest):
                    change[file] = None
                else:
                    change[file] = Label(rest if how == "remove" else classes[how], by)
            self.table.change(change)
            self._renew()
            return {**self.state(page), "class": name, "gone": sorted({*indices} - {*there})}

    def rename(self, page: str, name: str, to: str) -> dict[str, Any]:
        """Gives a class another name, that of another class joins both. Raises as `label`."""
        with self._lock:
            self._check(page)
            to = self._spelled(to, [each for each in self._classes if each != name])
            check_classes({to})
            change = {}
            for file, label in self.table.of.items():
                if name in label.classes:
                    classes = tuple(
                        dict.fromkeys(to if each == name else each for each in label.classes)
                    )
                    change[file] = label._replace(classes=classes)
            self.table.change(change)
            self._classes = list(
                dict.fromkeys(to if each == name else each for each in self._classes)
            )
            self._renew()
            return {**self.state(page), "class": to}

    def step(self, page: str, back: bool) -> dict[str, Any]:
        """Takes the last change back, or does it again. Raises as `label`."""
        with self._lock:
            self._check(page)
            files = self.table.undo() if back else self.table.redo()
            self._renew()
            return {
                **self.state(page),
                "changed": [self._index[file] for file in files if file in self._index],
            }

    # ---- images

    def next(self, count: int) -> dict[str, Any]:
        """The unlabelled images that are best labelled next.

        Those of the random sample that were shown and not labelled are among them: without them the
        accuracy could not be stated any more, since the others would be no random sample.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._guessed == self._wanted, _PATIENCE)
        chosen, why = self._chosen(count)
        if not all(map(self.is_there, chosen)):  # perhaps the others have gone, too
            for index in range(len(self._names)):
                self.is_there(index)
            chosen, why = self._chosen(count)
        with self._lock:
            self._put_off |= {*chosen} - {*self._sample.tolist()}
            self._last_shown = chosen
        return {"pictures": self._pictures(chosen), "why": why}

    def _chosen(self, count: int) -> tuple[list[int], str]:
        with self._lock:
            labelled = np.array(sorted(self._labelled()), np.int64)
            gone = np.array(sorted(self._gone), np.int64)
            done = np.union1d(labelled, gone)
            if not len(
                np.setdiff1d(np.arange(len(self._names)), [*done, *self._sample, *self._put_off])
            ):
                self._put_off.clear()  # nothing else is left
            taken = np.union1d(done, [*self._put_off]).astype(np.int64)
            margins = self._guesses.margins if self._guesses else None
        pool = order.Pool(
            self.gallery.directions, np.setdiff1d(labelled, self._sample), margins, taken
        )
        seed = 1000 * self.config.seed + len(labelled)
        return order.choose(pool, self._sample, len(labelled), count, seed)

    def like(self, index: int, count: int) -> dict[str, Any]:
        """The unlabelled images nearest to one, and the class that they may have: its own, or its
        guess if sure.
        """
        cosines = self.gallery.directions @ self.gallery.directions[index]
        taken = self._labelled() | {index}
        near = self._there(
            int(i) for i in np.argsort(-cosines, kind="stable") if int(i) not in taken
        )
        indices = [i for i, _ in zip(near, range(count))]
        name = ""
        for origin in self._pictures([index]):
            (judged,) = self._judged([origin], origin["guess"])
            name = next(iter(origin["labels"]), origin["guess"] if judged["likely"] else "")
        return {"pictures": self._judged(self._pictures(indices), name), "class": name}

    def all(self, start: int, count: int, name: str) -> dict[str, Any]:
        """All images in the order of their names, or those of a class."""
        with self._lock:
            of_class = {file for file, label in self.table.of.items() if name in label.classes}
            wanted = (i for i, file in enumerate(self._names) if not name or file in of_class)
            indices = [i for i in wanted if i not in self._gone]
        return {"pictures": self._pictures(indices[start : start + count]), "total": len(indices)}

    def slips(self) -> dict[str, Any]:
        """Images whose label the classifier of the others doubts, the most doubtful first, and why
        none is listed.
        """
        with self._lock:
            figures = self._figures
            classes = self._guesses.classes if self._guesses else []
            if figures is None or self._measured < self._wanted:
                return {"pictures": [], "why": ""}
            doubts = {index: (number, share) for index, number, share in figures.slips or []}
            pictures = self._pictures(doubts)
        for picture in pictures:
            number, share = doubts[picture["index"]]
            picture |= {"guess": classes[number], "share": round(share, 4)}
        few = (
            f"fewer than {100 * guesses.GOOD:.0f} % of the labels are guessed right when they are"
            " held out"
        )
        return {"pictures": pictures, "why": "" if figures.slips is not None else few}

    def surest(self, name: str, count: int) -> dict[str, Any]:
        """Unlabelled images that are guessed to be of a class, the surest first."""
        with self._lock:
            guessed = self._guesses
            taken = self._labelled()
        if guessed is None or name not in guessed.classes:
            return {"pictures": []}
        shares = guessed.shares[:, guessed.classes.index(name)]
        likely = np.flatnonzero(
            shares >= (guessed.shares.max(1) if not self.config.multi_label else 0.5)
        )
        best = self._there(
            int(i)
            for i in likely[np.argsort(-shares[likely], kind="stable")]
            if int(i) not in taken
        )
        pictures = self._judged(self._pictures([i for i, _ in zip(best, range(count))]), name)
        number = guessed.classes.index(name)
        for picture in pictures:
            share = float(self._shares(guessed, picture["index"])[number])
            picture |= {"guess": name, "share": round(share, 4)}
        return {"pictures": pictures}

    def map(self) -> dict[str, Any]:
        """Places of at most 2,000 images, the labelled ones among them, those that are alike near
        each other.
        """
        with self._lock:
            if self._map is None:
                where = embedding_map.places(
                    self.gallery.directions, embedding_map.PCA_MAP, self.config.seed
                ).where
                self._map = (where - where.min(0)) / np.maximum(np.ptp(where, 0), 1e-9)
            labelled = sorted(self._labelled() - self._gone)[: embedding_map.MOST]
            rest = np.setdiff1d(np.arange(len(self._names)), [*labelled, *self._gone])
            step = -(-len(rest) // max(1, embedding_map.MOST - len(labelled)))
            indices = [*labelled, *rest[:: max(1, step)].tolist()]
            numbers = {name: n for n, name in enumerate(self._classes)}
            points = []
            for i in indices:
                label = self.table.of.get(self._names[i])
                guessed = self._guesses
                if label:
                    number = numbers.get(label.classes[0], -1) if label.classes else -1
                else:
                    number = (
                        numbers.get(guessed.classes[int(guessed.shares[i].argmax())], -1)
                        if guessed
                        else -1
                    )
                points.append(
                    [i, *(round(float(x), 4) for x in self._map[i]), number, int(label is not None)]
                )
            return {"points": points}

    def commands(self) -> dict[str, Any]:
        """What to do with the labels, as commands, and what stands against it."""
        with self._lock:
            is_measured = self._figures is not None and self._figures.sample >= random_sample.LEAST
            return finish.commands(
                self.config,
                self.table.classes,
                len(self.table.of),
                is_measured,
                self._encoder(),
            )

    # ---- within

    def _encoder(self) -> str:
        """Returns the value of --encoder for a command that takes one encoder."""
        if not self.gallery.candidates:
            return self.config.encoder
        view = self.gallery.view(self._figures.view if self._figures else None)
        return parted(view.encoder.path)[0]

    def _check(self, page: str) -> None:
        if page != self._page:
            raise TakenOver(
                "these labels are now open on another page; use this page instead to go on here"
            )
        self._seen = time.monotonic()
        self._refresh()

    def _refresh(self) -> None:
        try:
            changed = self.table.refresh()
        except ConfigError as error:
            self._remarks = [f"another program changed the table, which cannot be read: {error}"]
            raise
        if changed:
            self._remarks = [
                f"{self.config.labels} was changed by another program; its changes are shown"
            ]
            self._renew()

    def is_there(self, index: int) -> bool:
        """Returns whether the file of an image is there. One that is not leaves the page until it
        is there again.
        """
        is_there = os.path.isfile(self.gallery.pictures.paths[index])
        with self._lock:
            if is_there == (index in self._gone):  # it has changed
                self._gone ^= {index}
                self._renew()
        return is_there

    def _there(self, indices: Iterable[int]) -> Iterator[int]:
        return filter(self.is_there, indices)

    def _notes(self) -> Iterator[str]:
        """Yields remarks that hold as long as their cause."""
        if count := len(self._gone):
            what = "1 image is" if count == 1 else f"{count:,} images are"
            yield (
                f"{what} no longer in {self.config.pictures}; their rows stay in"
                f" {self.config.labels}"
            )
        if self._figures:
            yield from self._figures.features
        first: dict[str, str] = {}
        for name in self.table.classes:
            if (other := first.setdefault(names.key(name), name)) != name:
                pair = f"{names.quoted(other, name)} and {names.quoted(name, other)}"
                yield f"{pair} are read as one class; rename one to join them"

    def _spelled(self, name: str, classes: Sequence[str]) -> str:
        """Returns the class among these that the tasks would take for the same as `name`; `name` if
        there is none.
        """
        alike = (each for each in classes if names.key(each) == names.key(name))
        return name if name in classes else next(alike, name)

    def _renew(self) -> None:
        """Wakes the worker: the labels have changed."""
        self._classes = list(dict.fromkeys([*self._classes, *self.table.classes]))
        self._wanted += 1
        self._changed.notify_all()

    def _work(self) -> None:
        """Computes guesses, then figures, whenever labels have changed; labels that change
        meanwhile come first.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._measured < self._wanted)
                state = self._wanted
                given = self._labels(), self._names, self.table.classes, self.config.multi_label
                labelled = guesses.labelled(
                    *given, self._sample[~np.isin(self._sample, [*self._gone])]
                )
            try:
                self._compute(labelled, state)
            except Exception as error:  # labels can still be given
                print_bug()
                with self._lock:
                    self._remarks = [f"the classifier failed: {reason(error)}"]
                    self._guesses = self._figures = None
                    self._guessed = self._measured = state

    def _compute(self, labelled: guesses.Labelled, state: int) -> None:
        before = self._figures
        strength = before.strength if before else logistic.USUAL
        view = self.gallery.view(before.view if before else None)
        result = guesses.guess(view, labelled, strength)
        with self._changed:
            self._guesses = result
            self._guessed = state
            self._changed.notify_all()
        with self._lock:
            if self._wanted != state:
                return
        figures = guesses.measure(self.gallery, labelled, self.config.seed, self.config.encoder)
        chosen = self.gallery.view(figures.view) if figures else view
        if figures and (figures.strength != strength or chosen is not view):
            result = guesses.guess(chosen, labelled, figures.strength)
        with self._lock:
            self._guesses = result
            self._figures = figures
            self._measured = state

    def _labels(self) -> Labels:
        """Returns the labels of the images that are there."""
        return {
            file: label
            for file, label in self.table.of.items()
            if self._index[file] not in self._gone
        }

    def _labelled(self) -> set[int]:
        with self._lock:
            return {self._index[name] for name in self.table.of}

    def _class_records(self) -> list[dict[str, Any]]:
        counts = {name: [0, 0] for name in self._classes}
        for label in self._labels().values():
            for name in label.classes:
                counts[name][label.by == MODEL] += 1
        return [
            {
                "name": name,
                "count": sum(count),
                "accepted": count[1],
                "color": _COLORS[n % len(_COLORS)],
            }
            for n, (name, count) in enumerate(counts.items())
        ]

    def _judged(self, pictures: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
        """Adds how probable a class is for each image, "chance", and whether that is "likely"
        enough to be selected.

        Held-out guesses tell it; without them no chance is told.
        """
        with self._lock:
            guessed = self._guesses
            figures = self._figures
            is_known = guessed is not None and figures is not None and name in guessed.classes
            level = figures.level if is_known else None
            for picture in pictures:
                picture |= {"chance": None, "likely": False}
                if is_known:
                    chance = float(
                        self._shares(guessed, picture["index"])[guessed.classes.index(name)]
                    )
                    picture |= {
                        "chance": round(chance, 4),
                        "likely": level is not None and chance >= level,
                    }
        return pictures

    def _shares(self, guessed: Guesses, index: int) -> np.ndarray:
        """Returns the probabilities of the classes of an image, calibrated once there are held-out
        guesses.
        """
        shares = guessed.shares[index]
        if self._figures is None:
            return shares
        return guesses.calibrated(shares[None], self._figures.temperature, self.config.multi_label)[
            0
        ]

    def _pictures(self, indices: Iterable[int]) -> list[dict[str, Any]]:
        with self._lock:
            guessed = self._guesses
            records = []
            for index in self._there(indices):
                label = self.table.of.get(self._names[index])
                share = self._shares(guessed, index) if guessed else None
                records.append(
                    {
                        "index": int(index),
                        "file": self._names[index],
                        "labels": [*label.classes] if label else [],
                        "by": label.by if label else "",
                        "guess": guessed.classes[int(share.argmax())] if guessed else "",
                        "share": round(float(share.max()), 4) if guessed else 0,
                    }
                )
            return records
