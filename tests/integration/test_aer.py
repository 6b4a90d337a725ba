"""`t2t-aer` on files, and on the hand-made alignments included in the package."""

import gzip
import io
import sys

import pytest

from t2t.cli import aer
from t2t.files.pharaoh import parse_links
from tests.readme import ROOT

PAIRS, LINKS = ROOT / "examples/aligned_ende.tsv", ROOT / "examples/aligned_ende.links"


@pytest.fixture
def run(capsys):
    def command(*arguments):
        status = aer.main(["t2t-aer", *map(str, arguments)])
        return status, *capsys.readouterr()

    return command


def test_the_rate_of_a_file(run, tmp_path, monkeypatch):
    """4 links found, 5 sure links; 3 of the found links are sure, 4 are possible: 1 - (3 + 4) / (4 + 5) = 1 - 7/9."""
    gold, found = tmp_path / "gold.gz", tmp_path / "found"
    gold.write_bytes(gzip.compress(b"0-0 1-1 2?1\n\n0-1 1-0 1-1\n"))
    found.write_text("0-0 2-1\n\n0-1 1-0\n")
    expected = "AER = 0.2222, precision = 1.0000, recall = 0.6000 (4 links found, 5 sure)\n"
    assert run(gold, found) == (0, expected, "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(found.read_bytes())))
    assert run(f"--gold={gold}", "--test=-") == (0, expected, "")


@pytest.mark.parametrize(
    ("gold", "found", "message"),
    [
        ("0-0\n", "0-0\n1-1\n", r"gold has 1 lines and {folder}/found has 2; line n of one must belong to line n of"),
        ("0-0\n", "0:0\n", r"found: line 1 has '0:0'; a line has links like 0-0"),
        (None, "0-0\n", r"gold: there is no such file"),
    ],
)
def test_mistakes(run, tmp_path, gold, found, message):
    for name, content in (("gold", gold), ("found", found)):
        if content is not None:
            (tmp_path / name).write_text(content)
    status, out, err = run(tmp_path / "gold", tmp_path / "found")
    assert (status, out) == (2, "")
    assert message.format(folder=tmp_path) in err
    assert err.count("\n") == 1


def test_files_that_are_not_named(run):
    assert run()[::2] == (
        2,
        "t2t-aer: error: GOLD and TEST not given; name the file made by hand, then the one to score\n",
    )


def test_the_alignments_made_by_hand_link_words_of_their_sentences():
    pairs = [line.split("\t") for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    lines = LINKS.read_text().splitlines()
    assert len(pairs) == len(lines) == 20
    for number, ((source, target), line) in enumerate(zip(pairs, lines, strict=True), start=1):
        sure, possible = parse_links(line, LINKS.name, number)
        assert not set(sure) & set(possible)
        assert {i for i, _ in (*sure, *possible)} == set(range(len(source.split()))), line
        assert {j for _, j in (*sure, *possible)} == set(range(len(target.split()))), line


def test_alignments_made_by_hand_are_without_error_against_themselves(run, tmp_path):
    lines = [[link for link in line.split() if "-" in link] for line in LINKS.read_text().splitlines()]
    (tmp_path / "sure").write_text("".join(" ".join(links) + "\n" for links in lines))
    status, out, _ = run(LINKS, tmp_path / "sure")
    assert status == 0
    assert out.startswith("AER = 0.0000, precision = 1.0000, recall = 1.0000 (")
