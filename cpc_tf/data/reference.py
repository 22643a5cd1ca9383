"""What --dataset names: a folder of the user's own images, KIND:PATH, or a dataset with a name."""

from __future__ import annotations

from typing import NamedTuple

FOLDER = "folder"  # kind of images in class folders
BOXES = ("voc", "coco", "yolo", "csv")  # kinds of images with boxes, by the format of these


class DataRef(NamedTuple):
    """A value of --dataset.

    Attributes:
      kind: `FOLDER` or one of `BOXES`; '' for a dataset with a name.
      path: the folder or file; the name, e.g. 'photos/100', 'voc/2007' or 'mnist:3.0.1'.
    """

    kind: str
    path: str

    @classmethod
    def parse(cls, text: str) -> DataRef:
        """Returns what a text names; of other kinds, such as 'mnist:3.0.1', the text is a name."""
        kind, colon, path = text.partition(":")
        is_own = colon and kind in (FOLDER, *BOXES)
        return cls(kind, path) if is_own else cls("", text)

    def __str__(self) -> str:
        return f"{self.kind}:{self.path}" if self.kind else self.path

    @property
    def is_folder(self) -> bool:
        """Whether it names a folder of images whose labels are class folders or a table."""
        return self.kind == FOLDER

    @property
    def has_boxes(self) -> bool:
        """Whether it names a folder of images with boxes."""
        return self.kind in BOXES

    @property
    def builder(self) -> str:
        """The name of a dataset without its version, e.g. 'mnist' or 'voc/2007'; '' for a
        folder.
        """
        return "" if self.kind else self.path.partition(":")[0]
