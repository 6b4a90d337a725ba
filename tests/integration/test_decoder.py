"""`t2t-decoder` with a trained run: files, words, splits, conversation, scores, choices.

That a killed decoder is resumed is tested by `tests.faults`, see `test_faults.py`; other jobs, checkpoints and windows
by the unit tests of files.
"""

import json
import random
import re
import shutil

import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.cli import decoder, trainer
from t2t.cli import eval as eval_command
from t2t.inference.alignment import renumber_links
from tests.builders import edited
from tests.in_process import call, refuses

DIRTY = [
    b"1 2 3", b"", b"4 5 6 7\r", b"\xff\xfe 8 9", b" \xe2\x80\xa8 ", b"1 \x00 2", b"3 \xe2\x80\xa8 4\x85\x0b", b"\r",
    b"1 2 3 4 5 6 7 8 9 0 " * 400, b"not in the vocabulary", b"\xef\xbb\xbf", b"\x1b[31m 5", b"9 9",
]  # fmt: skip


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(tiny_run.output_dir)


@pytest.fixture
def decode(tiny_run):
    """Runs the command on the run; returns what it prints."""
    return lambda *flags, **named: call(decoder, *flags, **{"output_dir": tiny_run.output_dir, **named})


# === Files ===
def test_one_line_for_each_line_whatever_it_holds(decode, translator, tmp_path):
    source = tmp_path / "dirty"
    source.write_bytes(b"\n".join(DIRTY))
    err = decode(decode_from_file=source, max_input_length=24).err
    target = tmp_path / "dirty.transformer.transformer_tiny.text2text_files.beam2.alpha0.6.decodes"
    written = target.read_bytes().decode().split("\n")
    assert len(written) == len(DIRTY) + 1
    asked = ["1 2 3", "", "4 5 6 7", "\ufffd\ufffd 8 9", "", "1 2", "3 4\ufffd", "", "1 2 3 4 5 6 7 8 9 0 " * 3,
             "not in the vocabulary", "\ufeff", "\x1b[31m 5", "9 9"]  # fmt: skip
    expected = [best.text for (best,) in translator.translate(asked, max_input_length=24)]
    assert written[:-1] == [text and line for text, line in zip(asked, expected, strict=True)]
    assert "warning: cut to the 24 ids that max_input_length allows: 1 line (number 9)" in err
    assert "warning: NUL characters removed in 1 line" in err
    assert "warning: invalid UTF-8 replaced in 2 lines" in err
    assert "decoded 13 lines in " in err
    assert f" tokens/s; written to {target}" in err


# === Words ===
@pytest.mark.slow  # that the flags of alignments reach the translator, and its links the file
def test_alignments_are_written_beside_the_outputs_or_alone(decode, translator, tmp_path):
    (tmp_path / "in").write_text("1 2 3\n\n4 5 unheard 7\n")

    def written(*flags):
        return decode("--decode_to_file=-", *flags, decode_from_file=tmp_path / "in").out.split("\n")[:-1]

    (first,), (last,) = translator.translate(["1 2 3", "4 5 unheard 7"], alignments=True)
    links = [" ".join(f"{i}-{j}" for i, j in one.alignment) for one in (first, last)]
    assert written("--output_format=pharaoh") == [links[0], "", links[1]]
    assert written("--alignments") == [f"{first.text} ||| {links[0]}", " ||| ", f"{last.text} ||| {links[1]}"]
    found = [json.loads(line)["hypotheses"][0] for line in written("--alignments", "--output_format=jsonl")]
    assert [tuple(map(tuple, one["alignment"])) for one in found] == [first.alignment, (), last.alignment]
    (other,) = translator.translate(["1 2 3"], alignments=True, alignment_layer=2, alignment_head=2)[0]
    chosen = written("--output_format=pharaoh", "--alignment_layer=2", "--alignment_head=2")
    assert chosen[0] == " ".join(f"{i}-{j}" for i, j in other.alignment)


@pytest.mark.slow  # that unknown words are replaced by words of their line, in files and in what a split is scored by
def test_unknown_words_become_words_of_their_line(tiny_run, tmp_path):
    """With a run whose vocabulary has only four of the ten digits."""
    folders = {"data_dir": tmp_path / "data", "output_dir": tmp_path / "run"}
    asked = [flag for flag in tiny_run.train_flags if not flag.startswith("--data_dir")]
    call(trainer, *asked, "--generate_data", "--vocab_size=7", "--train_steps=20", **folders)
    source, dictionary = tmp_path / "in", tmp_path / "words"
    source.write_text("7 x 8 y 9\n5 5 z\n")
    dictionary.write_text("x\tX X\n7\tseven\n")
    greedy = {**folders, "decode_method": "greedy", "min_output_length": 3}
    lines = {**greedy, "decode_from_file": source, "decode_to_file": "-", "output_format": "jsonl", "alignments": True}
    plain, replaced = (
        [json.loads(line)["hypotheses"][0] for line in call(decoder, *flags, **lines).out.splitlines()]
        for flags in ([], ["--replace_unknown", f"--unknown_dictionary={dictionary}"])
    )
    assert any("<unk>" in one["text"] for one in plain)
    translations = {"x": "X X", "7": "seven"}
    for line, before, after in zip(source.read_text().splitlines(), plain, replaced, strict=True):
        own = {target: line.split()[place] for place, target in before["alignment"]}
        words = enumerate(before["text"].split())
        expected = [translations.get(own[i], own[i]) if word == "<unk>" else word for i, word in words]
        links = renumber_links(tuple(map(tuple, before["alignment"])), expected)
        assert after == before | {"text": " ".join(expected), "alignment": list(map(list, links))}
    printed = call(decoder, "--decode_split=test", "--replace_unknown", **greedy, decode_to_file=tmp_path / "out").out
    outputs = (tmp_path / "out").read_text().splitlines()
    sources, references = tiny_run.lines("test")
    assert not any("<unk>" in line for line in outputs)
    assert any(set(output.split()) & set(source.split()) for output, source in zip(outputs, sources, strict=True))
    assert str(BLEU().corpus_score(outputs, [references])) in printed


# === Splits and conversation ===
def test_a_split_is_decoded_written_and_scored(decode, tiny_run, translator, tmp_path):
    split = {"data_dir": tiny_run.data_dir, "decode_split": "test"}
    out = decode(**split, decode_to_file=tmp_path / "out").out.splitlines()
    sources, references = tiny_run.lines("test")
    hypotheses = (tmp_path / "out").read_text().split("\n")[:-1]
    assert hypotheses == [best.text for (best,) in translator.translate(sources)]
    bleu = BLEU()
    assert out[0] == "8 test examples of text2text_files, step-00000040"
    assert out[1] == f"{bleu.corpus_score(hypotheses, [references])} | {bleu.get_signature()}"
    assert out[2].startswith("accuracy_per_sequence = ")
    assert len(out) == 3
    found = decode(**split, decode_to_file="-", output_format="tsv")
    assert [line.count("\t") for line in found.out.splitlines()] == [2] * 8
    assert "\nBLEU = " in found.err, "where the outputs are on standard output, their score is elsewhere"


def test_without_a_mode_it_translates_what_is_typed(decode, translator):
    expected = [best.text for (best,) in translator.translate(["1 2 3", "q"], beam_size=1)]
    assert decode("--decode_beam_size=1", typed=b"1 2 3\n\nq\n").out == f"{expected[0]}\n\n{expected[1]}\n"


# === Mistakes ===
@pytest.mark.parametrize(
    ("flags", "about"),
    [
        (["--n_best=3"], "n_best=3 1 2 beam_size"),
        (["--unknown_dictionary=words"], "--unknown_dictionary --replace_unknown"),
        (["--worker_gpu=99"], "--worker_gpu=99 0"),
    ],
)
def test_mistakes_write_nothing(tiny_run, tmp_path, monkeypatch, flags, about):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words").write_text("a\tb\n")
    files = {"decode_from_file": tiny_run.raw_dir / "dev.source", "decode_to_file": tmp_path / "out"}
    refuses(decoder, about, *flags, output_dir=tiny_run.output_dir, **files)
    assert [path.name for path in tmp_path.iterdir()] == ["words"]


def test_a_run_of_a_plugin_asks_for_it_and_runs_no_strangers_code(decode, tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    plugin = {"name": "mine", "kind": "usr_dir", "fingerprint": "f", "registered": ["problem:text2text_files"]}
    with edited(run / "run.json") as record:
        record["plugins"] = [plugin]
    refuses(decoder, "'mine' --t2t_usr_dir", output_dir=run)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/__init__.py").write_text("")
    (tmp_path / "in").write_text("\n")
    files = {"decode_from_file": tmp_path / "in", "decode_to_file": tmp_path / "out"}
    found = decode(output_dir=run, t2t_usr_dir=tmp_path / "mine", **files)
    assert "plug-in mine has changed since" in found.err


# === `t2t-decoder --score_file` and `t2t-eval --choice_file` with a trained run, compared with the Python API ===
PAIRS = [("1 2 3", "3 2 1"), ("1 2 3", "1 2 3"), ("", "4"), ("5 6", ""), ("\ufffd 7", "7 \ufffd"), ("9 " * 30, "9 9")]
PAIR_LINES = b"".join(f"{source}\t{target}\n".encode() for source, target in PAIRS).replace("\ufffd".encode(), b"\xff")


def test_the_scores_are_those_of_the_translator(tiny_run, translator, tmp_path, stdin):
    pairs, out, run = tmp_path / "pairs", tmp_path / "out", {"output_dir": tiny_run.output_dir}
    pairs.write_bytes(PAIR_LINES)
    err = call(decoder, "--decode_window=4", **run, score_file=pairs, decode_to_file=out).err
    written = out.read_text().splitlines()
    assert all(len(line.partition(".")[2]) == 6 for line in written)
    by_api = translator.score(PAIRS)
    assert [float(line) for line in written] == pytest.approx(by_api, abs=2e-5)
    assert len(set(written)) == len(PAIRS)
    assert "warning: invalid UTF-8 replaced in 1 line" in err
    assert f"tokens/s; written to {out}" in err
    assert "scored 6 lines in " in err
    stdin(b"1 2 3\t3 2 1\n")
    assert float(call(decoder, "--score_file=-", **run).out) == pytest.approx(by_api[0], abs=2e-5)
    call(decoder, "--token_scores", "--output_format=jsonl", **run, score_file=pairs, decode_to_file=out)
    for line, (_, target), total in zip(out.read_text().splitlines(), PAIRS, by_api, strict=True):
        found = json.loads(line)
        assert [piece for piece, _ in found["tokens"]] == [*target.replace("\ufffd", "<unk>").split(), "</s>"]
        assert [found["log_prob"], sum(value for _, value in found["tokens"])] == pytest.approx([total] * 2, abs=2e-5)


def test_without_a_name_the_scores_lie_beside_the_file(tiny_run, tmp_path):
    (tmp_path / "pairs").write_bytes(PAIR_LINES)
    err = call(decoder, "--max_input_length=3", output_dir=tiny_run.output_dir, score_file=tmp_path / "pairs").err
    written = (tmp_path / "pairs.transformer.transformer_tiny.text2text_files.scores").read_text().splitlines()
    assert [line == "nan" for line in written] == [True, True, False, False, False, False]
    assert re.search(r"^warning: cut to the 3 ids .*: 3 lines \(number 1, 2, 6\)", err, re.M)
    assert re.search(r"^warning: not scored \(nan\), .* 3 ids .*: 2 lines \(number 1, 2\)", err, re.M)
    (tmp_path / "one_side").write_text("1\t1\nno tab\n")
    refuses(decoder, "one_side 2 1 TAB", output_dir=tiny_run.output_dir, score_file=tmp_path / "one_side")
    assert not list(tmp_path.glob("one_side.*"))


# === Choices ===
def test_choices_are_counted_as_the_translator_scores(tiny_run, translator, tmp_path):
    rng, choices = random.Random(1), tmp_path / "choices"
    rows = [(rng.choices("0123456789", k=4), rng.choice("AB")) for _ in range(20)]
    lines = [(" ".join(row), " ".join(row[::-1]), " ".join(row), letter) for row, letter in rows]
    choices.write_text("".join("\t".join(line) + "\n" for line in lines))
    scores = translator.score([pair for source, a, b, _ in lines for pair in ((source, a), (source, b))])
    right = sum((scores[2 * n] > scores[2 * n + 1]) == (line[3] == "A") for n, line in enumerate(lines))
    assert 0 < right < 20, "a count that could not be otherwise shows nothing"
    assert call(eval_command, output_dir=tiny_run.output_dir, choice_file=choices).out == (
        f"20 choices of {choices}, step-00000040 (40 updates)\naccuracy {right / 20:.3f} ({right} of 20)\n"
    )
    searching, run = ["--split=test", "--decode_beam_size=2"], {"output_dir": tiny_run.output_dir}
    refuses(eval_command, "--split, --decode_beam_size: --choice_file", *searching, **run, choice_file=choices)
    refuses(eval_command, "/dev/null TAB", **run, choice_file="/dev/null")
