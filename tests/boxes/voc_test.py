"""Annotations, sound and hostile."""

import math

import pytest

from cpc_tf.boxes import voc

# As VOC has it: a person with parts, which have names and boxes of their own.
SOUND = b"""<annotation>
  <folder>VOC2007</folder><filename>000001.jpg</filename>
  <owner><name>nobody</name></owner>
  <size><width>353</width><height>500</height><depth>3</depth></size>
  <object>
    <name>dog</name><pose>Left</pose><truncated>1</truncated><difficult>0</difficult>
    <bndbox><xmin>48</xmin><ymin>240</ymin><xmax>195</xmax><ymax>371</ymax></bndbox>
  </object>
  <object>
    <part><name>head</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></part>
    <bndbox><xmax>352.5</xmax><xmin> 8 </xmin><ymax>498</ymax><ymin>12</ymin></bndbox>
    <difficult>1</difficult><name> person
    </name>
  </object>
</annotation>"""


def test_sound_annotation():
    assert voc.parse(SOUND) == voc.Annotation(
        names=["dog", "person"],
        boxes=[[240, 48, 371, 195], [12, 8, 498, 352.5]],
        difficult=[False, True],
        size=(500, 353),
        filename="000001.jpg",
    )


PREFIXED = SOUND.replace(b"</", b"</v:").replace(b"<", b"<v:").replace(b"<v:/v:", b"</v:")
CAPITALS = (
    SOUND.replace(b"object>", b"Object>")
    .replace(b"xmin>", b"XMIN>")
    .replace(b"annotation>", b"ANNOTATION>")
)


@pytest.mark.parametrize(
    "text",
    [
        SOUND.replace(b"<annotation>", b"<annotation xmlns='http://host/voc'>"),
        SOUND.replace(b"<annotation>", b"<annotation verified='yes'>"),
        SOUND.replace(b"<name>dog<", b"<name><![CDATA[dog]]><"),
        SOUND.replace(b"<name>dog<", b"<name>&#100;o&#x67;<"),
        SOUND.replace(b"<bndbox>", b"<polygon><x1>1</x1><y1>2</y1></polygon><bndbox>"),
        PREFIXED,  # without a declaration of the prefix, and with one
        PREFIXED.replace(b"<v:annotation>", b"<v:annotation xmlns:v='http://host/voc'>"),
        CAPITALS,
    ],
)
def test_the_same_in_other_words(text):
    assert text != SOUND
    assert voc.parse(text) == voc.parse(SOUND)


def test_one_class_however_its_letters_are_composed():
    texts = [
        f"<annotation><object><name>{name}</name></object></annotation>"
        for name in ("caf\u00e9", "cafe\u0301")
    ]
    assert {voc.parse(text.encode()).names[0] for text in texts} == {"caf\u00e9"}


def test_nothing_in_it():
    names, boxes, difficult, size, filename = voc.parse(b"<annotation/>")
    assert names == boxes == difficult == []
    assert filename == ""
    assert all(map(math.isnan, size))


CORNERS = "<bndbox><xmin>1</xmin><ymin>{}</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"


@pytest.mark.parametrize(
    ("content", "name", "whole"),
    [
        ("<name>a</name>", "a", False),
        ("<name>a</name><bndbox/>", "a", False),
        ("<name>a</name>" + CORNERS.replace("<ymax>9</ymax>", "").format(1), "a", False),
        ("<name>a</name>" + CORNERS.format("one"), "a", False),
        ("<name>a</name>" + CORNERS.format(""), "a", False),
        (CORNERS.format(1), "", False),
        ("<name> </name>" + CORNERS.format(1), "", False),
        ("<name>a</name>" + CORNERS.format(1), "a", True),
    ],
)
def test_what_an_object_lacks_is_not_a_number(content, name, whole):
    annotation = voc.parse(f"<annotation><object>{content}</object></annotation>".encode())
    assert (annotation.names, annotation.difficult) == ([name], [False])
    assert any(map(math.isnan, annotation.boxes[0])) is not whole


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no XML",
        SOUND[:-20],
        b"\xff\xd8\xff\xe0",
        b"<annotation>\x00</annotation>",
        (
            b"<annotations><image name='a.jpg'><box label='dog' xtl='1' ytl='1' xbr='9'"
            b" ybr='9'/></image></annotations>"
        ),
        b"<html><object/></html>",
        b"<?xml version='1.0' encoding='nonsense'?><annotation/>",
        "<?xml version='1.0' encoding='gbk'?><annotation>图</annotation>".encode("gbk"),
    ],
)
def test_no_annotation(text):
    with pytest.raises(ValueError, match="."):
        voc.parse(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_not_expanded(encoding):
    entities = '<!ENTITY b "xx"><!ENTITY c "&b;&b;">'
    bomb = f"<!DOCTYPE a [{entities}]><annotation><object><name>&c;</name></object></annotation>"
    with pytest.raises(ValueError, match="document type declaration"):
        voc.parse(bomb.encode(encoding))
