"""`t2t-evalb`: EVALB's report for files as they are, and a one-line error for other files."""

import gzip
import subprocess
import sys

import pytest

from t2t.cli import evalb
from tests.in_process import call, refuses

GOLD = "(TOP (S (NP (NN x)) (VP (VB y) (NP (NN z)))))\n"
TEST = "(TOP (S (NP (NN x) (VB y)) (NP (NN z))))\n"
ROW = "   1    3    0   50.00  66.67     2      4    3      1      3     3   100.00\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**contents):
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


@pytest.mark.parametrize(
    "arguments",
    ["gold test", "--param_file=COLLINS gold test", "gold test --param-file=own", "-p own gold test",
     "--gold=gold --test=test", "packed test"],
)  # fmt: skip
def test_a_report(files, arguments):
    files(gold=GOLD, test=TEST, packed=gzip.compress(GOLD.encode()), own="DELETE_LABEL TOP\n")
    out, err = call(evalb, *arguments.split())
    assert err == ""
    assert out.startswith("  Sent.  ")
    assert ROW in out
    assert out.endswith("Tagging accuracy          = 100.00\n")
    assert out.count("\n") == 35


def test_without_settings_nothing_is_deleted_and_damaged_text_is_scored_and_counted(files):
    files(gold=GOLD, test=TEST)  # TOP counts: 3 of 5 and of 4
    row = "   1    3    0   60.00  75.00     3      5    4      1      3     3   100.00\n"
    assert row in call(evalb, "-p=none", "gold", "test").out
    files(gold=GOLD.replace("x", "caf\xe9").encode("latin-1"), test=TEST.replace("x", "caf\xe9").encode("latin-1"))
    out, err = call(evalb, "gold", "test")
    assert err == "warning: invalid UTF-8 replaced in 2 lines\n"
    assert ROW in out


def test_errors_of_sentences_and_unequal_numbers_of_lines_go_to_standard_error(files):
    files(gold=GOLD * 3, test=TEST + "\n" + TEST.replace("y", "w"), short=TEST)
    out, err = call(evalb, "gold", "test")
    assert err == "3 : Words unmatch (y|w)\n"
    assert "Number of Error sentence  =      1\nNumber of Skip  sentence  =      1\n" in out
    out, err = call(evalb, "gold", "short")
    assert err == "2 : Number of lines unmatch (too many lines in gold file)\n"
    assert "Number of sentence        =      1\n" in out


def test_too_many_errors_end_the_report_with_status_1(files):
    files(gold=GOLD * 20, test="(A b)\n" * 20)
    out, err = refuses(evalb, "12 MAX_ERROR 10", "gold", "test", status=1)
    assert out.count("\n") == 3 + 11
    assert "Summary" not in out
    assert err.splitlines()[:-1] == [f"{number} : Length unmatch (3|1)" for number in range(1, 13)]


def test_both_streams_together_are_in_order(files):
    files(gold=GOLD * 2, test=TEST.replace("y", "w") + TEST)
    command = [sys.executable, "-c", "from t2t.cli.evalb import main; main(['t2t-evalb', 'gold', 'test'])"]
    both = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    lines = both.splitlines()
    assert lines[3] == "1 : Words unmatch (y|w)"
    assert lines[4].startswith("   1    3    1")


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ("", "GOLD TEST"),
        ("gold", "TEST"),
        ("gold nothing", "nothing"),
        ("nothing gold", "nothing"),
        ("gold .", ".:"),
        ("gold gold gold", "'gold' GOLD TEST"),
        ("gold gold --gold=gold", "'gold' --gold"),
        ("gold gold -p bad", "bad:1: DELTE DELETE_LABEL"),
        ("gold gold -p nothing", "nothing"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_printed(files, arguments, about):
    files(gold=GOLD, bad="DELTE X\n")
    assert refuses(evalb, about, *arguments.split()).out == ""


def test_the_command_starts_without_tensorflow_and_sacrebleu(files):
    files(gold=GOLD, test=TEST)
    code = (
        "import sys; from t2t.cli.evalb import main; main(['t2t-evalb', 'gold', 'test']); "
        "print(*sorted({'tensorflow', 'keras', 'sacrebleu'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.endswith("= 100.00\n\n")
