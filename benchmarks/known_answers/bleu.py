"""BLEU of three systems of WMT 2017, English to German, as sacreBLEU's authors publish it (13a, cased)."""

from collections import Counter
from pathlib import Path

from benchmarks.known_answers import Row
from t2t.files.lines import read_lines
from t2t.metrics.text import bleu

FOLDER = "mt/wmt17_en_de_systems"
REFERENCE = "newstest2017.ref.de.gz"
SYSTEMS = {
    "newstest2017.uedin-nmt.4722.en-de.gz": "28.30",
    "newstest2017.online-B.0.en-de.gz": "26.65",
    "newstest2017.PROMT-Rule-based.4735.en-de.gz": "16.61",
}


def check(data: Path) -> list[Row]:
    """Compares `t2t.metrics.text.bleu` with the published scores, to two decimals."""
    references = list(read_lines(data / FOLDER / REFERENCE, Counter()))
    rows = []
    for file, expected in SYSTEMS.items():
        score = bleu(list(read_lines(data / FOLDER / file, Counter())), references)
        found = f"{score.value:.2f}"
        rows.append(Row(check=f"BLEU of {file.split('.')[1]}", expected=expected, found=found, ok=found == expected))
    return rows
