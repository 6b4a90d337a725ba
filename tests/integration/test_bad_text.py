"""Bad text is read by every part without lost or moved lines and without crashes."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from t2t.cli import datagen, vocab
from t2t.data.manifest import read_manifest
from t2t.features.treebank_linearisation import restored
from t2t.features.treebank_reading import sample_of
from t2t.features.treebank_trees import parse_tree, write_tree
from t2t.hparams.override import merge_overrides, parse_overrides
from t2t.metrics.brackets import bracket_f1
from tests.errors import refused
from tests.faults.text import drawn, run_case
from tests.faults.text_checks import CHECKS
from tests.in_process import call
from tests.nasty_lines import MEGABYTE_LINES, NASTY_LINES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = {"vocabularies": 8, "generation": 8, "metrics": 8}
"""Cases of checks that take long; of others there are more."""
MILLION = 1_000_000
MOST_GROWTH = 200 * 2**20
"""Additional memory in bytes that a process may use for a million empty lines."""


@pytest.mark.parametrize("name", CHECKS)
def test_some_bad_text(name):
    """Draws a few cases, the same each time; `python -m tests.faults` draws thousands of others."""
    drawn(name, lambda case: run_case(name, case), EXAMPLES.get(name, 25), derandomize=True)


def test_no_code_splits_text_where_files_do_not():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "t2t").rglob("*.py"))
        for number, line in enumerate(path.read_text().split("\n"), start=1)
        if re.search(r"\.splitlines\(|\.readlines\(", line)
    ]
    assert found == []


def test_lines_of_a_megabyte_are_generated_in_their_places(tmp_path):
    """Nasty and ordinary lines on both sides; no text is lost."""
    lines = [*NASTY_LINES, *MEGABYTE_LINES, *(b"good morning %d" % number for number in range(300))]
    (tmp_path / "source").write_bytes(b"\n".join(lines))
    (tmp_path / "target").write_bytes(b"".join(line + b"\n" for line in reversed(lines)))
    flags = {f"{split}_{side}": tmp_path / side for split in ("train", "dev") for side in ("source", "target")}
    call(datagen, "--problem=text2text_files", "--vocab_kind=word_list", vocab_size=600, data_dir=tmp_path, **flags)
    manifest = read_manifest(tmp_path / "text2text_files")
    train, dev = manifest.split("train"), manifest.split("dev")
    assert train.examples + sum(train.dropped.values()) == dev.examples == len(lines)
    assert set(dev.mended) == {"NUL characters removed", "invalid UTF-8 replaced"}


def test_a_tree_of_any_depth_takes_no_longer_than_it_is():
    depth = 2**14
    text = "(A " * depth + "(B x)" + ")" * depth
    tree = parse_tree(text)
    assert write_tree(tree) == text
    sample = sample_of(tree, Counter())
    assert str(restored(["x"], sample["targets"])) == f"(TOP {text})"
    assert bracket_f1([text], [text]).value == 100.0


def test_a_wrong_hparam_is_refused_at_once():
    """Also if it is very long: a time that grows with the square of a million would exceed the limit of tests."""
    for start, more, end in (("", "a", ""), ("steps=", " ", "["), ("steps", " ", ""), ("steps=1", ",", "")):
        text = start + more * 10**6 + end
        with refused():
            parse_overrides(text, {"steps": 1}, {"steps": 1})
        assert merge_overrides(text, text)


def test_what_a_terminal_cannot_show_ends_no_command(tmp_path):
    (tmp_path / "vocab.tokens").write_text("<pad>\n</s>\n<unk>\n\u65e5\n", encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    with contextlib.redirect_stdout(terminal):
        assert vocab.main(["t2t-vocab", f"--vocab_file={tmp_path / 'vocab.tokens'}"]) == 0
    assert b"3 \\u65e5" in terminal.buffer.getvalue()


# === A million empty lines ===
RUN_AND_MEASURE = """
import importlib, re, sys
assert importlib.import_module("t2t.cli." + sys.argv[1]).main(sys.argv[1:]) == 0
print(re.search("VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
"""


def peak_of(*arguments):
    """Runs a command in a separate process; returns its peak memory in bytes."""
    found = subprocess.run(
        [sys.executable, "-c", RUN_AND_MEASURE, *arguments], capture_output=True, check=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return 1024 * int(found.stdout.split()[-1])


@pytest.mark.exhaustive  # that the memory of generation does not grow with empty lines
def test_a_million_empty_lines_are_generated_and_counted(tmp_path):
    for side in ("source", "target"):
        (tmp_path / side).write_bytes(b"a b\n" * (MILLION + 1) + b"\n" * MILLION)
        (tmp_path / f"dev.{side}").write_bytes(b"\n" * 9 + b"a b\n")
    flags = [f"--train_{side}={tmp_path / side}" for side in ("source", "target")]
    flags += [f"--dev_{side}={tmp_path / 'dev'}.{side}" for side in ("source", "target")]
    memory = peak_of("datagen", *flags, "--problem=text2text_files", "--vocab_kind=byte", f"--data_dir={tmp_path}/data")
    train = read_manifest(tmp_path / "data" / "text2text_files").split("train")
    assert (train.examples, train.dropped) == (MILLION + 1, {"with an empty side": MILLION})
    assert memory < 2 * MOST_GROWTH, memory


@pytest.mark.exhaustive  # nor that of decoding
def test_a_million_empty_lines_are_decoded(tiny_run, tmp_path):
    peaks = []
    for lines in (10, MILLION):
        (tmp_path / "in").write_bytes(b"\n" * lines)
        flags = [f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"]
        peaks.append(peak_of("decoder", f"--output_dir={tiny_run.output_dir}", *flags))
        assert (tmp_path / "out").read_bytes() == b"\n" * lines
    assert peaks[1] - peaks[0] < MOST_GROWTH
