"""`t2t-aer` on files, and on the hand-made alignments included in the package."""

import gzip

import pytest

from t2t.cli import aer
from t2t.files.pharaoh import parse_links
from tests.in_process import call, refuses
from tests.readme import ROOT

PAIRS, LINKS = ROOT / "examples/aligned_ende.tsv", ROOT / "examples/aligned_ende.links"


def test_the_rate_of_a_file(tmp_path, stdin):
    """4 links found, 5 sure links; 3 of the found links are sure, 4 are possible: 1 - (3 + 4) / (4 + 5) = 1 - 7/9."""
    gold, found = tmp_path / "gold.gz", tmp_path / "found"
    gold.write_bytes(gzip.compress(b"0-0 1-1 2?1\n\n0-1 1-0 1-1\n"))
    found.write_text("0-0 2-1\n\n0-1 1-0\n")
    expected = "AER = 0.2222, precision = 1.0000, recall = 0.6000 (4 links found, 5 sure)\n"
    assert call(aer, gold, found) == (expected, "")
    stdin(found.read_bytes())
    assert call(aer, gold=gold, test="-") == (expected, "")


@pytest.mark.parametrize(
    ("gold", "found", "about"),
    [("0-0\n", "0-0\n1-1\n", "gold 1 found 2"), ("0-0\n", "0:0\n", "found 1 '0:0'"), (None, "0-0\n", "gold")],
)
def test_mistakes(tmp_path, gold, found, about):
    for name, content in (("gold", gold), ("found", found)):
        if content is not None:
            (tmp_path / name).write_text(content)
    assert refuses(aer, about, tmp_path / "gold", tmp_path / "found").out == ""
    refuses(aer, "GOLD TEST")


def test_the_alignments_made_by_hand_link_words_of_their_sentences(tmp_path):
    pairs = [line.split("\t") for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    lines = LINKS.read_text().splitlines()
    assert len(pairs) == len(lines) == 20
    for number, ((source, target), line) in enumerate(zip(pairs, lines, strict=True), start=1):
        sure, possible = parse_links(line, LINKS.name, number)
        assert not set(sure) & set(possible)
        assert {i for i, _ in (*sure, *possible)} == set(range(len(source.split()))), line
        assert {j for _, j in (*sure, *possible)} == set(range(len(target.split()))), line
    sure_alone = [" ".join(link for link in line.split() if "-" in link) for line in lines]
    (tmp_path / "sure").write_text("\n".join(sure_alone) + "\n")
    assert call(aer, LINKS, tmp_path / "sure").out.startswith("AER = 0.0000, precision = 1.0000, recall = 1.0000 (")
