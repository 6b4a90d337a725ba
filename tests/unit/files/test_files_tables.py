"""Tables of records for a screen and as tab-separated values."""

from t2t.files.tables import aligned, to_tsv

RECORDS = [{"name": "a", "n": 12345, "x": 0.123456, "ok": True}, {"name": "longer", "n": None, "x": None, "ok": False}]


def test_numbers_are_at_the_right_and_texts_at_the_left():
    assert aligned(RECORDS).splitlines() == [
        "name         n       x  ok",
        "a       12,345  0.1235  True",
        "longer                  False",
    ]


def test_tab_separated_values_have_all_digits_and_one_line_a_record():
    assert to_tsv(RECORDS) == "name\tn\tx\tok\na\t12345\t0.123456\tTrue\nlonger\t\t\tFalse\n"
    assert to_tsv([{"text": "a\tb\nc", "several": [1.5, 2]}]) == "text\tseveral\na b c\t1.5 2\n"


def test_no_records_are_no_table():
    assert aligned([]) == to_tsv([]) == ""
