import time

import pytest

from cpc_tf.core import progress


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (65, "1:05"), (3599.6, "1:00:00"), (7384, "2:03:04"), (273906, "3 d 04:05:06")],
)
def test_duration(seconds, text):
    assert progress.duration(seconds) == text


def test_start_up_does_not_count(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    work = progress.Progress(total=100, done=20)
    assert work.rate == 0
    assert str(work) == "20/100  20 %  timing"
    now[0] = 160.0  # a minute of compiling
    work.update(30)
    assert str(work) == "30/100  30 %  at most about 7:00 left"
    now[0] = 165.0
    work.update(40)
    assert work.rate == pytest.approx(2.0)
    assert str(work) == "40/100  40 %  0:30 left"
    assert work.seconds == 65


def test_innermost_wait_is_named_and_timed(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_FIRST", 0.02)
    monkeypatch.setattr(progress, "_THEN", (0.04, 60))
    work = progress.Progress(total=10)
    with progress.waiting_for("short"):
        pass
    with progress.silent(), progress.waiting_for("quiet"):
        time.sleep(0.1)
    with progress.waiting_for("outer"):
        with progress.waiting_for("inner", work):
            work.update(0)
            work.update(5)
            time.sleep(0.2)
        with pytest.raises(ValueError, match="within"), progress.waiting_for("failing"):
            raise ValueError("within")
    first, second = capsys.readouterr().err.splitlines()
    assert first == "inner ..."
    assert second.startswith("inner: 5/10  50 %  0:0")
