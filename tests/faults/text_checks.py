"""Checks of bad text: each has a strategy for cases and a function that raises if something is wrong.

The functions run in an empty folder.
"""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from t2t.cli import bleu, evalb
from t2t.data.generation.generate import generate
from t2t.data.reading.reader import SplitReader
from t2t.errors import UserError
from t2t.features.treebank_linearisation import restored, words_of
from t2t.features.treebank_reading import sample_of
from t2t.features.treebank_trees import Malformed, parse_tree, read_trees, write_tree
from t2t.files.lines import on_one_line
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.scoring import score_file
from t2t.inference.files.windows import FileJob
from t2t.metrics import METRICS
from t2t.metrics.text import moses_bleu
from t2t.problems.text_files import Text2TextFiles
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import learned_classes
from t2t.text.vocabulary_files import read_vocabulary
from tests.faults import command_lines
from tests.faults.command_lines import run_command, values
from tests.nasty_lines import nasty_lines, nasty_texts, read_as
from tests.reverser import Reverser

LONGEST = 40
"""Longest input and output of the fake translator, in characters."""


@dataclasses.dataclass(frozen=True)
class Check:
    """A check of one reader of text."""

    cases: st.SearchStrategy
    run: Callable[[Any], None]


# === Vocabularies ===
def build_and_encode(case: tuple[str, list[str], list[str], int]) -> None:
    """A vocabulary can be built from any text, is equal after saving and loading, and decodes text back if lossless."""
    kind, learnt_from, texts, size = case
    try:
        encoder = learned_classes()[kind].build(iter(learnt_from), size)
    except UserError:
        words = {word for text in learnt_from for word in text.split()}
        assert not words - {"<pad>", "</s>", "<unk>"} or size < 4, "there is text to learn from"
        return
    encoder.save(Path("vocab" + encoder.file_suffix))
    again = read_vocabulary("vocab" + encoder.file_suffix)
    assert again.fingerprint == encoder.fingerprint
    rows = encoder.encode_batch(texts)
    assert rows == [again.encode(text) for text in texts]
    assert [row.tolist() for row in encoder.encode_ended(texts)] == [[*row, 1] for row in rows]
    for text, row in zip(texts, rows, strict=True):
        assert all(1 < token_id < encoder.vocab_size for token_id in row)
        if encoder.lossless:
            assert encoder.decode(row) == text
        else:
            assert len(row) == len(encoder.decode(row).split()) == len(text.split())


# === Files ===
def generate_and_read(pairs: list[tuple[bytes, bytes]]) -> None:
    """Every training pair is generated or counted as dropped, and every dev pair is kept in order."""
    for side, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        Path(side).write_bytes(b"\n".join(lines) + b"\n")
    problem = Text2TextFiles(
        vocab_kind="byte", train_source="source", train_target="target", dev_source="source", dev_target="target"
    )
    problem.name = "text2text_files"
    texts = [tuple(map(read_as, pair)) for pair in _unmarked(pairs)]
    try:
        manifest = generate(problem, "data", "raw", workers=1)
    except UserError as error:
        if "more than half of the training data" not in str(error):
            raise
        return
    record = manifest.split("train")
    assert record.examples + sum(record.dropped.values()) == manifest.split("dev").examples == len(pairs)
    reader = SplitReader(Path("data/text2text_files"), manifest, "dev")
    for place, pair in enumerate(texts):
        for name, text in zip(("inputs", "targets"), pair, strict=True):
            ids, _ = reader.read([place], name)
            assert ByteEncoder().decode(ids) == text


def decode_lines(case: tuple[list[bytes], bool, int]) -> None:
    """One output line for each input line, in order; inputs that are too long are cut and counted."""
    lines, ended, window = case
    Path("in").write_bytes(b"\n".join(lines) + b"\n" * ended)
    if not ended and lines[-1] == b"":
        lines, ended = lines[:-1], True
    report = decode_file(Reverser(LONGEST), Job(source="in", target="out", window=window))
    texts = [read_as(line) for line in _first_unmarked(lines)]
    if not ended and lines and lines[-1].endswith(b"\r"):
        texts[-1] += "\r"
    reversed_texts = [f"{text[:LONGEST][::-1]}@{n}" if text.strip() else "" for n, text in enumerate(texts)]
    assert Path("out").read_bytes() == "".join(on_one_line(text) + "\n" for text in reversed_texts).encode()
    assert report.cut.count == sum(len(text) > LONGEST and not text.isspace() for text in texts)


def score_lines(lines: list[tuple[bytes, bytes]]) -> None:
    """One score for each line, in order; lines that are too long get NaN and are counted."""
    pairs = [tuple(side.replace(b"\t", b" ") for side in pair) for pair in lines]
    Path("in").write_bytes(b"".join(b"\t".join(pair) + b"\n" for pair in pairs))
    report = score_file(Reverser(LONGEST), FileJob(source="in", target="out", window=3))
    sources, targets = zip(*pairs, strict=True)
    lengths = [len(read_as(source + b".")) - 1 for source in _first_unmarked(list(sources))]  # no source ends a line
    sizes = zip(lengths, (len(read_as(target)) for target in targets), strict=True)
    scores = [-1000.0 * min(one, LONGEST) - other if other <= LONGEST else math.nan for one, other in sizes]
    assert Path("out").read_text() == "".join(f"{score or 0.0:.6f}\n" for score in scores)
    assert report.unscored.count == sum(map(math.isnan, scores))


def _first_unmarked(lines: list[bytes]) -> list[bytes]:
    """Returns the lines without the byte-order mark that the first one may begin with."""
    return [line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line for number, line in enumerate(lines)]


def _unmarked(pairs: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return list(zip(*(_first_unmarked(list(side)) for side in zip(*pairs, strict=True)), strict=True))


# === Scores and trees ===
def judge(pairs: list[tuple[str, str]]) -> None:
    """Every metric has a value for any lines, and the commands that print them exit with the expected status."""
    hypotheses, references = map(list, zip(*pairs, strict=True))
    for metric in METRICS.names():
        score = METRICS.get(metric)(hypotheses, references)
        assert str(score)
    moses_bleu(hypotheses, references)
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        Path(name).write_text("".join(on_one_line(line) + "\n" for line in lines), encoding="utf-8", newline="\n")
    assert run_command(bleu, "--translation=hyp", "--reference=ref", "--chrf") == 0
    assert run_command(evalb, "ref", "hyp") in (0, 1)


def read_brackets(lines: list[str]) -> None:
    """Any file gives trees or reported errors, and any model output is restored to a tree over the input's words."""
    for found in read_trees(iter(lines), "file"):
        if isinstance(found, Malformed):
            assert 1 <= found.line <= len(lines)
            continue
        assert parse_tree(write_tree(found)) == found
        sample = sample_of(found, Counter())
        assert sample is None or restored(words_of(sample["inputs"]), sample["targets"]).repaired is False
    for source, output in zip(lines, reversed(lines), strict=True):
        if words := words_of(source):
            tree = parse_tree(str(restored(words, output)))
            assert tree.words() == words


# === Strategies for cases ===

_LINES = st.lists(nasty_lines(), min_size=1, max_size=6)
_TEXTS = st.lists(nasty_texts(), min_size=1, max_size=5)
_ATOMS = st.one_of(
    st.sampled_from(["(", ")", "(S ", "(NP ", "/S", " ", "DT", "a", "\u00a0", "\u2028", "\r"]), nasty_texts()
)
_BRACKETS = st.lists(st.lists(_ATOMS, max_size=12).map("".join), min_size=1, max_size=4)
_FIELDS = st.sampled_from(
    ["beam_size", "learning_rate", "problem_weights", "best_metric", "x", "num_heads[0]", "[", "=,"]
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters(), max_size=5)),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["text", "inputs", "instances", "model", "n_best", "x"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip

CHECKS = {
    "vocabularies": Check(
        st.tuples(st.sampled_from(sorted(learned_classes())), _TEXTS, _TEXTS, st.sampled_from([3, 4, 30, 300, 400])),
        build_and_encode,
    ),
    "generation": Check(st.lists(st.tuples(nasty_lines(), nasty_lines()), min_size=1, max_size=6), generate_and_read),
    "decoding": Check(st.tuples(_LINES, st.booleans(), st.integers(1, 4)), decode_lines),
    "scoring": Check(st.lists(st.tuples(nasty_lines(), nasty_lines()), min_size=1, max_size=6), score_lines),
    "metrics": Check(st.lists(st.tuples(nasty_texts(), nasty_texts()), min_size=1, max_size=4), judge),
    "brackets": Check(_BRACKETS, read_brackets),
    "flags": Check(
        st.tuples(
            st.sampled_from(sorted(command_lines.COMMANDS)),
            st.lists(st.tuples(st.integers(0, 99), values()), min_size=1, max_size=2),
        ),
        command_lines.read_flags,
    ),
    "hparams": Check(
        st.lists(st.tuples(_FIELDS, values()).map("=".join), max_size=3).map(",".join), command_lines.override_hparams
    ),
    "names": Check(
        st.tuples(values(), st.dictionaries(st.sampled_from(["vocab_kind", "vocab_file", "x"]), values()), values()),
        command_lines.look_names_up,
    ),
    "requests": Check(st.one_of(nasty_lines(), _JSON.map(json.dumps).map(str.encode)), command_lines.read_requests),
}  # fmt: skip
