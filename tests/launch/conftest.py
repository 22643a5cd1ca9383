"""A fake Google Cloud for the tests of launches."""

import pytest

from tests.launch.cloud import Cloud


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    made = Cloud(tmp_path / "cloud", monkeypatch)
    yield made
    made.close()
