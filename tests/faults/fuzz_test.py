"""Some seconds of the fuzzer."""

import pytest

from tests.faults.fuzz import TARGETS, Attack

pytestmark = pytest.mark.slow
CASES = {
    **{"images": 100, "annotations": 200, "flags": 40, "checkpoints": 12, "cards": 50},
    **{"runs": 8, "results": 4, "modules": 1, "folders": 3, "tables": 150},
}


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_input_is_read_or_refused(name, tmp_path):
    attack = Attack(tmp_path, seed=0, names=[name])
    for number in range(CASES[name]):
        attack.one(name, number)
    assert not attack.broken, "\n".join(f"{each.number}: {each.trace}" for each in attack.broken)
    assert attack.tried(name) == CASES[name]


def test_fuzz_cases_are_deterministic_and_failures_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(TARGETS["annotations"], "check", lambda self, data: 1 / 0)
    attack = Attack(tmp_path, seed=0, names=["annotations"])
    attack.next()
    ((_, number, data, trace),) = attack.broken
    assert attack.data("annotations", number) == data != attack.data("annotations", number + 1)
    assert "ZeroDivisionError" in trace
