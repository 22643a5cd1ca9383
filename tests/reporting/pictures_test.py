"""Pictures from the runs' directories: one of each encoder, and how to draw them where there are none."""

from cpc_tf.reporting import pictures
from cpc_tf.reporting.collect import collect
from tests.reporting import samples

PNG = b"\x89PNG\r\n"


def test_one_picture_of_each_encoder(tmp_path):
    for number, place in enumerate(("photos/0", "photos/1", "ablation/1_v1/0")):
        samples.write(tmp_path / place / "pretrain", samples.pretrain(seed=number))
        (tmp_path / place / "pretrain/patches.png").write_bytes(PNG + bytes([number]))
    samples.write(tmp_path / "linear", samples.linear())
    (tmp_path / "linear/linear.png").write_bytes(b"no picture")
    found = collect(str(tmp_path))
    first, more = pictures.blocks(found.of("pretrain"), found.of("linear"))
    assert first.pictures == {"": (PNG + b"\x00", b"")}
    assert [figure.title for figure in more.blocks] == [first.title.replace("photos/0", "ablation/1_v1/0")]


def test_how_to_draw_them(tmp_path):
    samples.write(tmp_path / "a/pretrain", samples.pretrain(), run__flags="")
    samples.write(tmp_path / "a/linear", samples.linear(), run__flags="")
    found = collect(str(tmp_path))
    patches, neighbours = pictures.blocks(found.of("pretrain"), found.of("linear"))
    assert f"--output={tmp_path}/a/pretrain/patches.png" in patches.commands[0]
    assert neighbours.commands[0].endswith(f"--flagfile={tmp_path}/a/linear/run.flags")
    assert pictures.blocks([], []) == []
