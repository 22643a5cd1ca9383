"""The table of labels: what others wrote is kept, changes are undone, and tasks read who gave a
label.
"""

import fcntl
import threading

import numpy as np
import pytest

from cpc_tf.core.settings import ConfigError
from cpc_tf.data import pool
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.labels import MODEL
from cpc_tf.label.table import Label, LabelTable

NAMES = ["a/1.png", "a/2.png", "b/3.png", "=4.png"]


def test_changes_are_written_and_undone_without_end(tmp_path):
    table = LabelTable(str(tmp_path / "labels.csv"), NAMES)
    for name in NAMES:
        table.change({name: Label(("cat",))})
    table.change({NAMES[0]: Label(("dog",), MODEL), NAMES[1]: None})
    table.change({NAMES[0]: Label(("dog",), MODEL)})  # no change, no step
    assert (
        (tmp_path / "labels.csv").read_text()
        == "file,label,by\na/1.png,dog,model\na/2.png,,\nb/3.png,cat,person\n'=4.png,cat,person\n"
    )
    assert LabelTable(table.path, NAMES).of == table.of
    assert [sorted(table.undo()) for _ in range(6)] == [
        NAMES[:2],
        [NAMES[3]],
        [NAMES[2]],
        [NAMES[1]],
        [NAMES[0]],
        [],
    ]
    assert table.of == {}
    assert [len(table.redo()) for _ in range(6)] == [1, 1, 1, 1, 2, 0]
    assert table.of[NAMES[0]] == Label(("dog",), MODEL)


def test_rows_columns_and_changes_of_others_are_kept(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(
        "camera;picture;class;group\nleft;x/a/1.png;cat;g1\nright;none.png;dog;g2\n;3.png;;\n"
    )
    table = LabelTable(str(path), NAMES)
    assert table.of == {NAMES[0]: Label(("cat",))}
    table.change({NAMES[2]: Label(("dog",))})
    path.write_text(path.read_text().replace("x/a/1.png;cat", "x/a/1.png;horse"))
    table.change({NAMES[1]: Label(("dog",))})
    assert (
        path.read_text() == "file;label;by;camera;group\n"
        "x/a/1.png;horse;person;left;g1\nnone.png;dog;person;right;g2\n"
        "3.png;dog;person;;\na/2.png;dog;person;;\n"
    )
    path.unlink()
    table.change({NAMES[1]: None})
    assert "a/2.png;;;;\n" in path.read_text()
    assert "horse" in path.read_text()
    path.write_text("nothing of files\n")
    with pytest.raises(ConfigError, match="which is not a file and its class"):
        table.change({NAMES[3]: Label(("cat",))})
    assert path.read_text() == "nothing of files\n"


def test_rows_of_an_image_change_together_keeping_annotators(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file,label,by\na/1.png,cat,anna\nx/a/1.png,cat,anna\na/2.png,cat,bert\n")
    table = LabelTable(str(path), NAMES)
    table.change({NAMES[2]: Label(("dog",))})
    table.change({NAMES[0]: Label(("dog",))})
    assert (
        path.read_text() == "file,label,by\na/1.png,dog,person\nx/a/1.png,dog,person\n"
        "a/2.png,cat,bert\nb/3.png,dog,person\n"
    )
    assert LabelTable(str(path), NAMES).of == table.of


def test_label_stays_with_its_image_for_any_name(tmp_path):
    """As with macOS's space before PM, and names that differ in outer spaces, the form of an
    accent, a backslash.
    """
    names = [
        "3.04\u202fPM.jpg",
        "1.jpg",
        " 1.jpg",
        "1.jpg ",
        "a\u0308.jpg",
        "\u00e4.jpg",
        "b\\c.jpg",
        "b/c.jpg",
    ]
    names += ["'=5.jpg", "=5.jpg", '"6".jpg', "7;8.jpg", "9\n.jpg", "10\r.jpg", ".jpg"]
    table = LabelTable(str(tmp_path / "labels.csv"), names)
    for number, name in enumerate(names):
        table.change({name: Label((f"class{number}",))})
    assert LabelTable(table.path, names).of == table.of
    assert len(table.of) == len(names)


def test_unknown_names_match_after_normalization(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\n .\\A\\1.png ,cat\n./b/3.PNG,dog\n")
    assert [*LabelTable(str(tmp_path / "labels.csv"), NAMES).of] == ["a/1.png", "b/3.png"]


def test_linked_table_is_replaced_and_keeps_its_mode(tmp_path):
    (tmp_path / "shared.csv").write_text("file,label\n")
    (tmp_path / "shared.csv").chmod(0o640)
    (tmp_path / "labels.csv").symlink_to("shared.csv")
    LabelTable(str(tmp_path / "labels.csv"), NAMES).change({NAMES[0]: Label(("cat",))})
    assert (tmp_path / "labels.csv").is_symlink()
    assert "a/1.png,cat,person" in (tmp_path / "shared.csv").read_text()
    assert (tmp_path / "shared.csv").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("text", ["", "\n", "file,label\n", "\ufefffile;label\r\n"])
def test_a_table_without_rows_opens(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_text(text, newline="")
    table = LabelTable(str(path), NAMES)
    assert table.of == {}
    table.change({NAMES[0]: Label(("cat",))})
    assert LabelTable(str(path), NAMES).of == table.of


def test_excel_reads_what_it_wrote(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(
        "\ufefffile;label;note\r\na/1.png;größer;x, y\r\n", encoding="utf-8", newline=""
    )
    table = LabelTable(str(path), NAMES)
    table.change({NAMES[1]: Label(("cat", "dog"))})
    rows = "file;label;by;note", 'a/1.png;größer;person;"x, y"', 'a/2.png;"cat;dog";person;'
    assert path.read_bytes().decode() == "\ufeff" + "".join(f"{row}\r\n" for row in rows)


def test_what_another_process_writes_first_is_read_first(tmp_path):
    """The change waits for the lock beside the table, then reads what was written meanwhile."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "labels.csv").symlink_to("shared/labels.csv")
    table = LabelTable(str(tmp_path / "labels.csv"), NAMES)
    table.change({NAMES[0]: Label(("cat",))})
    with open(tmp_path / "shared/labels.csv.lock") as lock, open(table.path, "a") as file:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=table.change, args=[{NAMES[1]: Label(("dog",))}])
        other.start()
        other.join(0.2)
        assert other.is_alive()
        file.write("b/3.png,bird,anna\n")
        file.flush()
        fcntl.flock(lock, fcntl.LOCK_UN)
        other.join()
    read = LabelTable(table.path, NAMES).of
    assert read == table.of
    assert [*read] == [NAMES[0], NAMES[2], NAMES[1]]


@pytest.mark.parametrize("name", ["", " x", "a;b", "a\nb", "No class", "unlabelled", "n/a"])
def test_a_name_that_tasks_read_otherwise_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="^the class"):
        LabelTable(str(tmp_path / "labels.csv"), NAMES).change({NAMES[0]: Label((name,))})
    assert not (tmp_path / "labels.csv").exists()


def test_no_test_is_drawn_from_accepted_guesses(folder, tmp_path):
    """Nor is one tested because another image of its group is."""
    rows = [
        f"{name}/{n}.png,{name},{'model' if n % 2 else 'person'},{n if n > 8 else ''}"
        for name in ("red", "green", "blue")
        for n in range(12)
    ]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label,by,group", *rows]) + "\n")
    data = PicturesConfig(labelled=str(folder), labels=str(tmp_path / "labels.csv"))
    table = pool.table_of(data)
    assert len(table.splits["test"]) >= 3
    assert not table.accepted[table.splits["test"]].any()
    assert table.accepted[table.splits["train"]].sum() > 12
    assert any("may differ from that on new images" in note for note in table.notes)
    assert any("18; no test is drawn from them" in note for note in table.notes)
    assert np.intersect1d(
        table.groups[table.splits["test"]], table.groups[table.splits["train"]]
    ).tolist() in (
        [],
        [""],
    )
