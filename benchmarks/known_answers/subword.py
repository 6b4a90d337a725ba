"""Two vocabularies that Tensor2Tensor ships: their pieces, the ids of its own encoder, and round trips of real text."""

import gzip
import hashlib
from collections import Counter
from pathlib import Path

from benchmarks.known_answers import Row
from t2t.files.lines import read_lines
from t2t.text.subword import SubwordEncoder
from t2t.text.vocabulary_files import read_vocabulary

FOLDER = "t2t_oracle"
VOCABULARIES = {
    "8k": "vocab.translate_ende_wmt8k.8192.subwords.gz",
    "32k": "vocab.translate_ende_wmt32k.32768.subwords.gz",
}
SHAPES = {
    "8k": "8190 pieces, the longest of 17 characters, 423 characters: <pad> <EOS> _ , _ ._ the_ s_ in_ of_ and_",
    "32k": "33708 pieces, the longest of 28 characters, 423 characters: <pad> <EOS> , _ ._ the_ _ in_ of_ and_ to_",
}
IDS = {
    "Hello world.": {"8k": "4928 4071 220 4", "32k": "26228 145 178 3"},
    "Die Würde des Menschen ist unantastbar.": {
        "8k": "67 4910 1829 2 45 448 33 6362 4316 504 4",
        "32k": "56 4507 37 301 24 10087 12090 27691 5 3",
    },
    "snow ☃ man_1 back\\slash": {
        "8k": "2451 1659 155 5134 615 606 584 1735 133 173 1792 134 1071 5134 5134 2 5291 728",
        "32k": "23065 1042 33590 4091 22278 5186 114 157 805 138 553 4504 7249 3179",
    },
    "1234567": {"8k": "4569 584 364 452 481 297", "32k": "5704 22285 4092 11892"},
    "": {"8k": "", "32k": ""},
}
"""From Tensor2Tensor's SubwordTextEncoder."""
TEXTS = ("mt/newstest/newstest2014.deen.de.gz", "mt/newstest/newstest2014.deen.en.gz", "lm/wikitext-2.test.txt.gz")


def check(data: Path) -> list[Row]:
    """Compares the vocabularies, their ids, and real text after encoding and decoding."""
    lines = [line for text in TEXTS for line in read_lines(data / text, Counter())]
    rows = []
    for name, file in VOCABULARIES.items():
        encoder = read_vocabulary(data / FOLDER / file)
        content = gzip.decompress((data / FOLDER / file).read_bytes())
        rows += [
            _row(f"subword vocabulary {name}", SHAPES[name], _shape(encoder)),
            _row(f"subword vocabulary {name} written again", _sha256(content), _sha256(encoder.to_bytes())),
        ]
        for text, expected in IDS.items():
            rows.append(_row(f"{name} ids of {text!r}", expected[name], " ".join(map(str, encoder.encode(text)))))
        back = sum(encoder.decode(ids) == line for line, ids in zip(lines, encoder.encode_batch(lines), strict=True))
        rows.append(_row(f"{name} lines of real text that come back", f"{len(lines):,}", f"{back:,}"))
    return rows


def _row(name: str, expected: str, found: str) -> Row:
    return Row(check=name, expected=expected, found=found, ok=expected == found)


def _shape(encoder: SubwordEncoder) -> str:
    pieces = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
    return (
        f"{len(pieces)} pieces, the longest of {max(map(len, pieces))} characters, {len(set().union(*pieces))} "
        f"characters: {' '.join(pieces[:10])}"
    )


def _sha256(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()[:16]}"
