"""Names that strangers chose, in tables that people open in a spreadsheet."""

import csv

from cpc_tf.core.texts import csv_lines, csv_text, name_lines

FORMULAS = [
    "=1+1",
    "@SUM(A1)",
    "+1+cmd|'/C calc'!A0",
    "-cmd",
    " =1",
    "\t=1",
    "\uff1d1",
    "'=1",
    "''-a",
    '=HYPERLINK("x").jpg',
]
PLAIN = ["a=b", "+5 %", "-1.2", "-1e-05", "", "cat", "'a", "a;b", 'a "b"', "a, b", "a\nb", "a\rb"]


def test_csv_formulas_are_escaped_and_read_back():
    cells = [*FORMULAS, *PLAIN]
    rows = [*csv.reader(csv_lines([[cell, 1.5, None] for cell in cells]).splitlines(keepends=True))]
    assert [row[1:] for row in rows] == [["1.5", ""]] * len(cells)
    assert [row[0] for row in rows] == [*(f"'{cell}" for cell in FORMULAS), *PLAIN]
    assert [csv_text(row[0]) for row in rows] == cells


def test_a_separator_of_another_country_ends_no_cell():
    assert csv_lines([["a;=1+1", "b\t=2"]]) == '"a;=1+1","b\t=2"\n'


def test_each_name_is_one_line():
    assert name_lines(["cat", "a\nb\0c", "d\u2028e"]).splitlines() == [
        "cat",
        "a\\nb\\x00c",
        "d\\u2028e",
    ]
