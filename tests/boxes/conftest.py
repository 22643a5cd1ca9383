"""Folders of images with boxes."""

import pytest

from cpc_tf.data.config import DataConfig
from tests.boxes.samples import open_boxes
from tests.data.conftest import (  # noqa: F401
    cache,
    checked,
    photos_dir,
    refused,
    unchecked,
    unreadable,
    warnings,
)
from tests.data.samples import write_files


@pytest.fixture
def opened(tmp_path):
    """Writes {path: bytes or text} into a folder and opens a split of it, or of a file in it, as
    voc, coco or yolo.
    """

    def opened(kind, files, split="train", at="", **options):
        write_files(tmp_path / kind, files)
        data = DataConfig(
            dataset=f"{kind}:{tmp_path / kind / at}", data_dir=str(tmp_path / "cache")
        )
        return open_boxes(data, split, **options)

    return opened
