import pytest

from cpc_tf.data.reference import DataRef


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("folder:a:b/c", ("folder", "a:b/c")),
        ("voc:gs://a/b", ("voc", "gs://a/b")),
        ("folder", ("", "folder")),
        ("mnist:3.0.1", ("", "mnist:3.0.1")),
        ("photos/100", ("", "photos/100")),
    ],
)
def test_a_known_kind_alone_names_a_folder(text, ref):
    assert DataRef.parse(text) == ref
    assert str(DataRef.parse(text)) == text


def test_a_builder_is_named_without_its_version():
    assert DataRef.parse("mnist:3.0.1").builder == "mnist"
    assert DataRef.parse("folder:mnist").builder == ""
