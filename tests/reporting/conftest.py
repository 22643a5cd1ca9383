import pytest

from cpc_tf.reporting import plots


@pytest.fixture
def undrawn(monkeypatch):
    """Figures without the drawing, which takes most of a report's time."""
    monkeypatch.setattr(plots, "both", lambda *_, **__: (b"light", b"dark"))
