"""Counts of exchanges, records of compiled programs, and tables of them."""

import pytest

from benchmarks import records, scale
from benchmarks.chips import CHIPS
from benchmarks.exchanges import exchanges

PROGRAM = """
  %a = f32[4,2]{1,0:T(8,128)} all-reduce(%x), channel_id=1, metadata={op_name="all-reduce(y)"}
  %b = (f32[3]{0:T(256)}, bf16[5]{0}, /*index=2*/f32[]) all-reduce-start(%x, %y, %z), channel_id=2
  %c = (f32[3]{0}, bf16[5]{0}, f32[]) all-reduce-done(%b)
  %d = (s32[2]{0}, s32[8]{0}) all-gather-start(%i), dimensions={0}
  %e = f32[9]{0} fusion(%a), kind=kLoop, calls=%all-reduce
"""


def test_exchanges_are_counted_once_in_the_bytes_of_their_results():
    assert exchanges(PROGRAM) == [
        {"kind": "all-reduce", "dtype": "f32", "count": 2, "bytes": 4 * (8 + 3 + 1)},
        {"kind": "all-gather", "dtype": "s32", "count": 1, "bytes": 4 * 8},
        {"kind": "all-reduce", "dtype": "bf16", "count": 0, "bytes": 2 * 5},
    ]


def record(step="a step", chip="v4", **more):
    sizes = {"arguments": 5e9, "outputs": 4e9, "in_place": 3.9e9, "temporaries": 6e9, "code": 0}
    sent = [{"kind": "all-reduce", "dtype": "f32", "count": 1, "bytes": 1_300_000}]
    cost = {"flop": 55e12, "bytes": 122.8e9, "exchanges": sent, "seconds": 1}
    about = {"step": step, "program": "1234", "chip": chip, "images": 16, "replicas": 32, "trained": 1_000_000}
    return {**about, **sizes, **cost, "written": [{**sent[0], "count": 9}], **more}


def test_a_row_has_what_a_program_needs_and_the_least_time_by_peak_and_bandwidth():
    (row,) = records.programs([record()]).splitlines()[2:]
    assert row == "| a step | 16 | v4 | 11.1 | 5.0 | 6.0 | 55.00 | 123 | 0.20, operations |"
    assert records.least_seconds(record(bytes=368.4e9), CHIPS["v4"]) == (pytest.approx(0.3), "memory")
    assert "21.1, too much" in records.programs([record(chip="v3", temporaries=16e9)])
    assert "not compiled: out of memory |" in records.programs([record(error="out of\nmemory")])


def test_what_is_sent_beside_the_gradients():
    (row,) = records.wire([record(), record(chip="v3")]).splitlines()[2:]
    assert row == "| a step | 1.0 MB | 300.0 kB | 1 all-reduce | compiled |"
    traced = {key: value for key, value in record(chip="").items() if key != "exchanges"}
    assert "| 9 all-reduce | written |" in records.wire([traced])


def test_a_record_replaces_the_one_of_its_step_and_chip(tmp_path):
    path = tmp_path / "records.json"
    for each in (record(chip="v5e"), record(), record(program="5678")):
        records.add(path, each)
    assert [(each["chip"], each["program"]) for each in records.read(path)] == [("v4", "5678"), ("v5e", "1234")]


def test_hours_on_a_pod_are_those_of_its_programs():
    name = scale.NETWORKS["ResNet-50"]
    found = [record(name, "v3", flop=61.5e12, bytes=45e9), record(name, "v4")]
    v3, v4, v5e, _ = (scale.step(found, "ResNet-50", machine) for machine in scale.MACHINES)
    links = 2 * 1.3e6 * 31 / 32 / 164e9
    assert v3.seconds == pytest.approx({"operations": 1.0, "memory": 0.1, "links": links})
    assert (v3.memory, v3.guessed, v3.limit) == (11.1e9, False, "operations")
    # 16 chips have 32 images each; 64 chips 8, by the first program that there is.
    assert (v4.flop, v4.memory, v4.guessed) == (110e12, None, False)
    assert (v5e.flop, v5e.guessed) == (61.5e12 / 2, True)
    row = scale.training(found).splitlines()[2]
    assert f"| {200 * 1_281_167 / 512 / 3600:,.0f} | {200 * 1_281_167 / 512 / 3600 / 0.4:,.0f} | " in row
    assert scale.growth(found).splitlines()[3].startswith("| 14,000,000 | 27,343 | 19.0 | - | 385 | 280 |")
