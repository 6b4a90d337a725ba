"""`t2t-decoder` with a trained run: files, standard input, words, splits, conversation.

That a killed decoder is resumed is tested by `tests.faults`, see `test_faults.py`; other jobs, checkpoints and windows
by the unit tests of files.
"""

import gzip
import json
import shutil

import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.cli import decoder, trainer
from t2t.inference.word_links import renumber_links
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


def split_lines(tiny_run):
    """Returns the inputs and references of the test split."""
    return ((tiny_run.raw_dir / f"test.{side}").read_text().splitlines() for side in ("source", "target"))


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


@pytest.mark.slow  # that an ensemble of a run with itself is the run, also for a packed file
def test_a_run_beside_itself_decodes_a_packed_file_as_alone(decode, tiny_run, tmp_path):
    run, numbers = tiny_run.output_dir, tiny_run.raw_dir / "dev.source"
    (tmp_path / "numbers.gz").write_bytes(gzip.compress(numbers.read_bytes()))
    decode(decode_from_file=numbers, decode_to_file=tmp_path / "a")
    both = {"output_dir": f"{run},{run}", "decode_from_file": tmp_path / "numbers.gz"}
    assert "an ensemble of 2 runs" in decode(**both, decode_to_file=tmp_path / "b").err
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    refuses(decoder, "nowhere", output_dir=f"{run},nowhere", decode_from_file=numbers)


@pytest.mark.slow  # that the streams of a command have the outputs of the API
def test_standard_input_and_output_and_several_outputs(decode, translator, stdin):
    stdin(b"1 2 3\n\n4\n")
    out, err = decode("--decode_from_file=-", "--n_best=2", "--output_format=jsonl")
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["line"] for one in found] == [1, 2, 3]
    assert found[1]["hypotheses"] == [{"text": "", "score": 0.0, "log_prob": 0.0}]
    for line, expected in zip((found[0], found[2]), translator.translate(["1 2 3", "4"], 2), strict=True):
        assert [one["text"] for one in line["hypotheses"]] == [one.text for one in expected]
        for key in ("score", "log_prob"):
            values = [getattr(one, key) for one in expected]
            assert [one[key] for one in line["hypotheses"]] == pytest.approx(values, abs=1e-4)
    assert "written to standard output" in err


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
    sources, references = (
        (tiny_run.raw_dir / f"test.{side}").read_text().splitlines() for side in ("source", "target")
    )
    assert not any("<unk>" in line for line in outputs)
    assert any(set(output.split()) & set(source.split()) for output, source in zip(outputs, sources, strict=True))
    assert str(BLEU().corpus_score(outputs, [references])) in printed


# === Splits and conversation ===


def test_a_split_is_decoded_written_and_scored(decode, tiny_run, translator, tmp_path):
    split = {"data_dir": tiny_run.data_dir, "decode_split": "test"}
    out = decode(**split, decode_to_file=tmp_path / "out").out.splitlines()
    sources, references = (
        (tiny_run.raw_dir / f"test.{side}").read_text().splitlines() for side in ("source", "target")
    )
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
        (["--checkpoint=30"], "'30'"),
        (["--n_best=3"], "n_best=3 1 2 beam_size"),
        (["--problem=other"], "--problem=other text2text_files"),
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
    (tmp_path / "in").write_text("1\n")
    files = {"decode_from_file": tmp_path / "in", "decode_to_file": tmp_path / "out"}
    found = decode("--decode_beam_size=1", output_dir=run, t2t_usr_dir=tmp_path / "mine", **files)
    assert "plug-in mine has changed since" in found.err
