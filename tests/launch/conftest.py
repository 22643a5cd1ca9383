"""A fake Google Cloud for the tests of launches."""

import signal

import pytest

from tests.launch.cloud import Cloud


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    # Where tests run in the background SIGINT is ignored, and a launch keeps it so.
    before = {
        number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGINT, signal.SIGHUP)
    }
    made = Cloud(tmp_path / "cloud", monkeypatch)
    yield made
    stays = made.exists
    made.close()
    for number, handler in before.items():
        signal.signal(number, handler)
    assert stays is made.stays
