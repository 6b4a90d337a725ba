"""EVALB's report on a few sentences, with scores worked out by hand."""

import dataclasses

import pytest

from t2t.metrics.brackets import COLLINS, NEW, Parameters, TooManyErrorsError, evalb_report
from tests.errors import refused

DOG = "(TOP (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ barks)) (. .)))"
PAIRS = [
    # 1: three words and a full stop; S, NP, VP all match; of three tags one is wrong
    (DOG, "(TOP (S (NP (DT The) (NN dog)) (VP (NNS barks)) (. .)))"),
    # 2: the test lacks one of seven brackets
    ("(TOP (S (NP (PRP I)) (VP (VBD saw) (NP (NP (DT a) (NN man)) (PP (IN with) (NP (NNS eyes)))))))",
     "(TOP (S (NP (PRP I)) (VP (VBD saw) (NP (DT a) (NN man)) (PP (IN with) (NP (NNS eyes))))))"),
    # 3: S and the last NP match, of four and three; NP 0-2 crosses VP 1-3
    ("(TOP (S (NP (NN x)) (VP (VB y) (NP (NN z)))))", "(TOP (S (NP (NN x) (VB y)) (NP (NN z))))"),
    # 4 is skipped, 5 and 6 are in error
    ("(TOP (S (NP (NN a)) (VP (VB b))))", ""),
    ("(TOP (S (NP (NN a)) (VP (VB b))))", "(TOP (S (NP (NN a)) (VP (VB c))))"),
    ("(TOP (S (NP (NN a)) (VP (VB b))))", "(TOP (S (NP (NN a))))"),
    # 7: the NP over only a trace is removed, PRT equals ADVP; S, VP and ADVP match, one of two tags is right
    ("(TOP (S (NP (-NONE- *)) (VP (VB give) (PRT (RP up)))))", "(TOP (S (VP (VB give) (ADVP (RB up)))))"),
]  # fmt: skip
# All: matched 3 + 6 + 2 + 3 = 14 of 3 + 7 + 4 + 3 = 17 and 3 + 6 + 3 + 3 = 15; F = 28/32; tags 2 + 6 + 3 + 1 of 14;
# 1 and 7 of four are complete, 3 alone has a crossing. Up to 4 words, without 2: 8 of 10 and 9, F = 16/19, tags 6 of 8.
REPORT = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================
   1    4    0  100.00 100.00     3      3    3      0      3     2    66.67
   2    6    0   85.71 100.00     6      7    6      0      6     6   100.00
   3    3    0   50.00  66.67     2      4    3      1      3     3   100.00
   4    2    2    0.00   0.00     0      0    0      0      0     0     0.00
5 : Words unmatch (b|c)
   5    2    1    0.00   0.00     0      0    0      0      0     0     0.00
6 : Length unmatch (2|1)
   6    2    1    0.00   0.00     0      0    0      0      0     0     0.00
   7    2    0  100.00 100.00     3      3    3      0      2     1    50.00
============================================================================
                 82.35  93.33     14    17    15      1     14    12    85.71
=== Summary ===

-- All --
Number of sentence        =      7
Number of Error sentence  =      2
Number of Skip  sentence  =      1
Number of Valid sentence  =      4
Bracketing Recall         =  82.35
Bracketing Precision      =  93.33
Bracketing FMeasure       =  87.50
Complete match            =  50.00
Average crossing          =   0.25
No crossing               =  75.00
2 or less crossing        = 100.00
Tagging accuracy          =  85.71

-- len<=4 --
Number of sentence        =      6
Number of Error sentence  =      2
Number of Skip  sentence  =      1
Number of Valid sentence  =      3
Bracketing Recall         =  80.00
Bracketing Precision      =  88.89
Bracketing FMeasure       =  84.21
Complete match            =  66.67
Average crossing          =   0.33
No crossing               =  66.67
2 or less crossing        = 100.00
Tagging accuracy          =  75.00
"""


def report(pairs, parameters=COLLINS):
    """Returns the lines of a report on pairs (gold, test), without the header."""
    return [line.text for line in evalb_report(*zip(*pairs, strict=True), parameters)][3:]


def test_a_report_by_hand():
    lines = list(evalb_report(*zip(*PAIRS, strict=True), dataclasses.replace(COLLINS, cutoff_length=4)))
    assert "".join(f"{line.text}\n" for line in lines) == REPORT
    assert [line.text for line in lines if line.is_error] == ["5 : Words unmatch (b|c)", "6 : Length unmatch (2|1)"]


def test_nothing_to_count_and_a_broken_line_that_shows_figures_and_counts_in_none():
    rows = report([(DOG, "")])
    assert rows[0] == "   1    4    2    0.00   0.00     0      0    0      0      0     0     0.00"
    assert rows[2] == "      0     0     0.00"
    assert rows[rows.index("-- All --") + 7] == "Bracketing FMeasure       =    nan"
    rows = report([("(S (NP (N a) (N b)) (N c)", "(S (NP (N a) (N b)) (N c))")])
    assert rows[0] == "1 : Bracketing is unbalanced (too many open bracket)"
    assert rows[1] == "   1    3    1   50.00  50.00     1      2    2      0      3     3   100.00"
    assert rows[3] == "      0     0     0.00"


def test_other_settings_change_the_report():
    pair = ("(S1 (S (NP (NN a)) (. ?)))", "(S (NP (NN a)) (. ?))")
    for parameters, recall in ((COLLINS, "66.67"), (NEW, "100.00")):
        assert report([pair], parameters)[0].split()[3:5] == [recall, "100.00"]


@pytest.mark.parametrize(("gold", "test", "longer"), [([DOG] * 3, [DOG], "gold"), ([DOG], [DOG] * 3, "test")])
def test_unequal_numbers_of_lines(gold, test, longer):
    lines = [line.text for line in evalb_report(gold, test, COLLINS)]
    assert lines[4] == f"2 : Number of lines unmatch (too many lines in {longer} file)"
    assert lines[5].startswith("=====")
    assert lines[lines.index("-- All --") + 1] == "Number of sentence        =      1"


@pytest.mark.parametrize(("gold", "test", "parameters", "expected", "about"), [
    # With MAX_ERROR 1: errors 1 and 2 pass, 3 stops it before its row.
    ([DOG] * 5, ["(S (A b))"] * 5, dataclasses.replace(COLLINS, max_error=1),
     ["1 : Length unmatch ", "   1    4    1    0", "2 : Length unmatch ", "   2    4    1    0",
      "3 : Length unmatch "], [3, 1, "MAX_ERROR"]),
    # A word outside brackets stops it, too.
    ([DOG, "(S (A a) b)", DOG], [DOG] * 3, COLLINS, ["   1    4    0  100"] + ["2 : Reading sentence"[:19]] * 12, [2]),
], ids=["errors", "word"])  # fmt: skip
def test_where_it_stops(gold, test, parameters, expected, about):
    lines = []
    with refused(*about, by=TooManyErrorsError):
        lines.extend(line.text for line in evalb_report(gold, test, parameters))
    assert [line[:19] for line in lines[3:]] == expected


def test_debug_prints_words_and_brackets():
    rows = report([PAIRS[2]], dataclasses.replace(COLLINS, debug=1))
    assert rows[1:13] == [
        "-<1>---(wn1=  3, bn1=  5)-           -<2>---(wn2=  3, bn2=  4)-",
        "  0 : 1 : NN      x                       0 : 1 : NN      x               ",
        "  1 : 1 : VB      y                       1 : 1 : VB      y               ",
        "  2 : 1 : NN      z                       2 : 1 : NN      z               ",
        "",
        "  0 : 5 :   0    3  TOP           0 : 5 :   0    3  TOP   ",
        "  1 : 1 :   0    3  S             1 : 1 :   0    3  S     ",
        "  2 : 0 :   0    1  NP            2 : 0 :   0    2  NP    ",
        "  3 : 0 :   1    3  VP            3 : 1 :   2    3  NP    ",
        "  4 : 1 :   2    3  NP" + " " * 10,
        "",
        "========",
    ]
    rows = report([("(S (A ä))", "(S (A o) (B u))")], Parameters(debug=1))  # by bytes, also what was not compared
    assert rows[3:5] == [
        "  0 : 9 : A       ä                      0 : 9 : A       o               ",
        " " * 40 + "  1 : 9 : B       u               ",
    ]


def test_debug_2_prints_what_does_not_match():
    gold, test = "(S (A (X a) (X b)) (B (X c)))", "(S (C (X a) (X b)) (X c))"
    rows = report([(gold, test), PAIRS[2]], dataclasses.replace(COLLINS, debug=2))
    assert rows[:4] == [
        "",
        "  LABEL[0-1]:  (X a) (X b)",
        "  BRACKET[2-2]:  (X c)",
        "   1    3    0   33.33  50.00     1      3    2      0      3     3   100.00",
    ]
    second = rows[rows.index("========") + 1 :]
    assert second[:5] == [
        "",
        "  BRACKET[0-0]:  (NN x)",
        "  BRACKET[1-2]:  (VB y) (NP (NN z))",
        "  EXTRA[0-1]:  (NN x) (VB y)",
        "  CROSSING[1-2]:  (VB y) (NP (NN z))",
    ]
