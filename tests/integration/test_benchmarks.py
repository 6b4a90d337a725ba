"""`python -m benchmarks known_answers`: what it compares, and that a wrong answer fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main, names
from benchmarks.known_answers import evalb

ROOT = Path(__file__).parents[2]
GOLD = "(TOP (S (NP (NN x)) (VP (VB y) (NP (NN z)))))\n"
TEST = "(TOP (S (NP (NN x) (VB y)) (NP (NN z))))\n"
ROW = "   1    3    0   50.00  66.67     2      4    3      1      3     3   100.00\n"


@pytest.fixture
def run(capsys):
    def run(*arguments):
        status = main(list(arguments))
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def trees(tmp_path, monkeypatch):
    """One sentence, with the report on it as this project writes it and one row of it by hand."""
    folder = tmp_path / evalb.FOLDER
    folder.mkdir(parents=True)
    for name in ("craft_noised", "sample"):
        (folder / f"{name}.gld").write_text(GOLD)
        (folder / f"{name}.tst").write_text(TEST)
    report = evalb._run(folder, "sample", "COLLINS", errors=False)
    assert ROW in report
    (folder / "a.rsl").write_text(report)
    (folder / "old.rsl").write_text(report.replace(ROW, "\n" + ROW.lstrip()))
    (folder / "COLLINS.prm").write_text(
        "DELETE_LABEL TOP\nDELETE_LABEL -NONE-\nDELETE_LABEL ,\nDELETE_LABEL :\nDELETE_LABEL ``\nDELETE_LABEL ''\n"
        "DELETE_LABEL .\nDELETE_LABEL_FOR_LENGTH -NONE-\nEQ_LABEL ADVP PRT\n"
    )
    monkeypatch.setattr(evalb, "REPORTS", (("sample", "COLLINS", "a.rsl"), ("sample", "COLLINS.prm", "a.rsl")))
    monkeypatch.setattr(evalb, "WITH_ERRORS", ("sample", "COLLINS", "old.rsl"))
    monkeypatch.setattr(evalb, "SETTINGS", (("COLLINS", "COLLINS.prm"),))
    monkeypatch.setattr(evalb, "METRICS", {"bracket_f1": "57.14", "bracket_crossing": "1.00"})  # 4/7
    return folder


def test_right_answers(run, trees):
    status, out, err = run("known_answers", f"--data={trees.parents[1]}", "--only=evalb")
    assert (status, err) == (0, "")
    assert "| t2t-evalb -p COLLINS.prm sample | output as a.rsl | 35 equal lines | ok |\n" in out
    assert (
        "| t2t-evalb -p COLLINS sample | output and errors, blanks aside, as old.rsl | 33 equal lines | ok |\n" in out
    )
    assert "| built-in settings COLLINS | those of COLLINS.prm | equal | ok |\n" in out
    assert "| bracket_f1 of craft_noised | 57.14 | 57.14 | ok |\n" in out
    assert out.endswith("6 of 6 known answers met\n")


def test_wrong_answers_fail(run, trees):
    (trees / "a.rsl").write_text((trees / "a.rsl").read_text().replace("50.00", "50.01"))
    (trees / "COLLINS.prm").write_text("DELETE_LABEL TOP\nCUTOFF_LEN 9\n")
    status, out, err = run("known_answers", f"--data={trees.parents[1]}", "--only=evalb")
    assert status == 1
    assert "| output as a.rsl | line 4: " in out
    assert ROW.strip() in out
    assert "| built-in settings COLLINS | those of COLLINS.prm | other settings | FAILS |\n" in out
    assert "failed: built-in settings COLLINS\n" in err
    assert out.endswith("3 of 6 known answers met\n")


def test_missing_files_are_a_failure(run, tmp_path):
    status, out, err = run("known_answers", f"--data={tmp_path}", "--only=evalb,bleu")
    assert status == 1
    assert "| bleu | a comparison | " in out
    assert "newstest2017.ref.de.gz: there is no such file; check the path | FAILS |" in out
    assert err == "failed: evalb\nfailed: bleu\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["known_answer"], "benchmark 'known_answer' does not exist; did you mean known_answers?; there are "),
        (["known_answers", "--data=/nowhere"], "--data=/nowhere: there is no such folder; name the folder of files"),
        (
            ["known_answers", "--data=.", "--only=bleu,evlb"],
            "--only=bleu,evlb: there is no 'evlb'; did you mean evalb?; there are bleu, ",
        ),
    ],
)
def test_mistakes_are_one_line(run, arguments, message):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith(f"benchmarks: error: {message}")
    assert err.count("\n") == 1


def test_benchmarks_are_listed():
    command = [sys.executable, "-m", "benchmarks"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert [line.split()[0] for line in out.splitlines()] == names()
    assert "known_answers     Compares the project's output" in out
