"""`t2t-decoder` with a trained run: files, standard input, a split, conversation, interruption."""

import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

import t2t
from t2t.cli import decoder, trainer
from t2t.inference.translator import Translator
from t2t.inference.word_links import renumber_links
from tests.builders import edited

DIRTY = [
    b"1 2 3", b"", b"4 5 6 7\r", b"\xff\xfe 8 9", b" \xe2\x80\xa8 ", b"1 \x00 2", b"3 \xe2\x80\xa8 4\x85\x0b", b"\r",
    b"1 2 3 4 5 6 7 8 9 0 " * 400, b"not in the vocabulary", b"\xef\xbb\xbf", b"\x1b[31m 5", b"9 9",
]  # fmt: skip


@pytest.fixture(scope="module")
def translator(tiny_run):
    return t2t.load(tiny_run.output_dir)


@pytest.fixture
def decode(tiny_run):
    """Runs the command on the run."""

    def run(*flags, output_dir=tiny_run.output_dir):
        return decoder.main(["t2t-decoder", f"--output_dir={output_dir}", *map(str, flags)])

    return run


@pytest.fixture
def numbers(tmp_path):
    """A file of 30 lines."""
    rng = random.Random(5)
    lines = [" ".join(rng.choices("0123456789", k=rng.randint(1, 9))) for _ in range(30)]
    path = tmp_path / "numbers"
    path.write_text("".join(line + "\n" for line in lines))
    return path


# === Files ===


def test_one_line_for_each_line_whatever_it_holds(decode, translator, tmp_path, capsys):
    source = tmp_path / "dirty"
    source.write_bytes(b"\n".join(DIRTY))
    assert decode(f"--decode_from_file={source}", "--max_input_length=24") == 0
    target = tmp_path / "dirty.transformer.transformer_tiny.text2text_files.beam2.alpha0.6.decodes"
    written = target.read_bytes().decode().split("\n")
    assert len(written) == len(DIRTY) + 1
    asked = ["1 2 3", "", "4 5 6 7", "\ufffd\ufffd 8 9", "", "1 2", "3 4\ufffd", "", "1 2 3 4 5 6 7 8 9 0 " * 3,
             "not in the vocabulary", "", "\x1b[31m 5", "9 9"]  # fmt: skip
    empty = [not text for text in asked]
    asked[10] = "\ufeff"  # only at the start of a file is it a byte-order mark
    empty[10] = False
    expected = [best.text for (best,) in translator.translate(asked, max_input_length=24)]
    for line, text, is_empty in zip(written, expected, empty, strict=False):
        assert line == ("" if is_empty else text)
    err = capsys.readouterr().err
    assert "warning: cut to the 24 ids that max_input_length allows: 1 line (number 9)" in err
    assert "warning: NUL characters removed in 1 line" in err
    assert "warning: invalid UTF-8 replaced in 2 lines" in err
    assert "decoded 13 lines in " in err
    assert f" tokens/s; written to {target}" in err


@pytest.mark.slow
def test_a_run_beside_itself_decodes_as_alone(decode, tiny_run, numbers, tmp_path, capsys):
    run = tiny_run.output_dir
    for folders, target in ((run, "alone"), (f"{run},{run}", "together")):
        flags = [f"--decode_from_file={numbers}", f"--decode_to_file={tmp_path / target}"]
        assert decode(*flags, output_dir=folders) == 0
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "together").read_bytes()
    assert "an ensemble of 2 runs: the mean of their probabilities" in capsys.readouterr().err
    assert decode(f"--decode_from_file={numbers}", output_dir=f"{run},nowhere") == 2
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.slow
def test_a_packed_file_gives_the_same(decode, numbers, tmp_path):
    packed = tmp_path / "numbers.gz"
    packed.write_bytes(gzip.compress(numbers.read_bytes()))
    for source, target in ((numbers, "a"), (packed, "b")):
        flags = [f"--decode_to_file={tmp_path / target}", "--decode_beam_size=1"]
        assert decode(f"--decode_from_file={source}", *flags) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.slow
def test_standard_input_and_output_and_several_outputs(decode, translator, monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"1 2 3\n\n4\n")))
    assert decode("--decode_from_file=-", "--n_best=2", "--output_format=jsonl") == 0
    out, err = capfdbinary.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["line"] for one in found] == [1, 2, 3]
    assert found[1]["hypotheses"] == [{"text": "", "score": 0.0, "log_prob": 0.0}]
    for line, expected in zip((found[0], found[2]), translator.translate(["1 2 3", "4"], 2), strict=True):
        assert [one["text"] for one in line["hypotheses"]] == [one.text for one in expected]
        for key in ("score", "log_prob"):
            assert [one[key] for one in line["hypotheses"]] == pytest.approx(
                [getattr(e, key) for e in expected], abs=1e-4
            )
    assert b"written to standard output" in err


@pytest.mark.exhaustive
def test_samples_do_not_depend_on_the_window(decode, numbers, tmp_path):
    flags = ["--decode_method=sample", "--sampling_temperature=0.9", "--sampling_top_k=5", "--random_seed=1"]
    for window in (4096, 7):
        target = f"--decode_to_file={tmp_path / str(window)}"
        assert decode(f"--decode_from_file={numbers}", target, *flags, f"--decode_window={window}") == 0
    assert (tmp_path / "4096").read_bytes() == (tmp_path / "7").read_bytes()


@pytest.mark.slow
def test_the_trainer_decodes_what_the_decoder_does(decode, tiny_run, numbers, tmp_path, capsys):
    assert decode(f"--decode_from_file={numbers}", f"--decode_to_file={tmp_path / 'a'}") == 0
    flags = [*tiny_run.train_flags, f"--output_dir={tiny_run.output_dir}", "--train_steps=40"]
    flags += [f"--decode_from_file={numbers}", f"--decode_to_file={tmp_path / 'b'}"]
    assert trainer.main(["t2t-trainer", *flags]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    capsys.readouterr()
    missing = [*tiny_run.train_flags, f"--output_dir={tmp_path / 'new'}", "--decode_from_file=/gone"]
    assert trainer.main(["t2t-trainer", *missing]) == 2
    assert "/gone: there is no such file" in capsys.readouterr().err
    assert not (tmp_path / "new").exists(), "nothing was trained first"


# === Interruption ===


def texts_and_scores(path):
    """Returns the text of an output file with each score replaced by "#", and the scores, a list of floats."""
    score, written = r"-?\d+\.\d{6}", path.read_text()
    return re.sub(score, "#", written), list(map(float, re.findall(score, written)))


KILLED = """
import os, signal, sys
from t2t.cli.decoder import main
from t2t.inference.translator import Translator

translate = Translator.translate_ids

def killed_after_a_window(*args, **kwargs):
    if os.path.exists(os.environ["STATE"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return translate(*args, **kwargs)

Translator.translate_ids = killed_after_a_window
sys.exit(main())
"""
"""A decoder that is killed when it begins a window and the state of an earlier one is on disk."""


@pytest.mark.slow
def test_a_killed_decoder_is_gone_on_from(decode, tiny_run, numbers, tmp_path, capsys):
    undisturbed, target = tmp_path / "undisturbed", tmp_path / "out"
    flags = [f"--decode_from_file={numbers}", "--decode_window=2", "--n_best=2", "--output_format=tsv"]
    assert decode(*flags, f"--decode_to_file={undisturbed}") == 0
    flags_of_all = [f"--output_dir={tiny_run.output_dir}", *flags, f"--decode_to_file={target}"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *flags_of_all], env={**os.environ, "STATE": f"{target}.partial.json"}
    )
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists(), "it was killed before the end"
    assert 0 < (tmp_path / "out.partial").read_bytes().count(b"\n") < 30
    capsys.readouterr()
    assert decode(*flags, f"--decode_to_file={target}") == 0
    assert "resuming after line " in capsys.readouterr().err
    (found, found_scores), (wanted, wanted_scores) = map(texts_and_scores, (target, undisturbed))
    assert found == wanted
    assert len(wanted_scores) == 30 * 2 * 2
    # The killed process had a different number of threads, which changes rounding.
    np.testing.assert_allclose(found_scores, wanted_scores, atol=1e-5)
    assert sorted(os.listdir(tmp_path)) == ["numbers", "out", "undisturbed"]


@pytest.mark.slow
def test_another_checkpoint_starts_again(decode, numbers, tmp_path, monkeypatch, capsys):
    flags = [f"--decode_from_file={numbers}", "--decode_window=10", "--decode_beam_size=1"]
    assert decode(*flags, f"--decode_to_file={tmp_path / 'alone'}", "--checkpoint=20") == 0
    calls, translate_ids = [], Translator.translate_ids

    def breaking(*args, **kwargs):
        calls.append(1)
        if len(calls) == 2:
            raise ConnectionError
        return translate_ids(*args, **kwargs)

    monkeypatch.setattr(Translator, "translate_ids", breaking)
    with pytest.raises(ConnectionError):
        decode(*flags, f"--decode_to_file={tmp_path / 'out'}")
    monkeypatch.undo()
    assert (tmp_path / "out.partial").exists()
    capsys.readouterr()
    assert decode(*flags, f"--decode_to_file={tmp_path / 'out'}", "--checkpoint=20") == 0
    assert "resuming after" not in capsys.readouterr().err
    assert (tmp_path / "out").read_bytes() == (tmp_path / "alone").read_bytes()


# === Words ===


@pytest.mark.slow
def test_alignments_are_written_beside_the_outputs_or_alone(decode, translator, tmp_path, capfdbinary):
    (tmp_path / "in").write_text("1 2 3\n\n4 5 unheard 7\n")
    flags = [f"--decode_from_file={tmp_path / 'in'}", "--decode_to_file=-"]

    def written(*more):
        assert decode(*flags, *more) == 0
        return capfdbinary.readouterr().out.decode().split("\n")[:-1]

    (first,), (last,) = translator.translate(["1 2 3", "4 5 unheard 7"], alignments=True)
    links = [" ".join(f"{i}-{j}" for i, j in one.alignment) for one in (first, last)]
    assert written("--output_format=pharaoh") == [links[0], "", links[1]]
    expected = [f"{first.text} ||| {links[0]}", " ||| ", f"{last.text} ||| {links[1]}"]
    assert written("--alignments") == expected
    found = [json.loads(line)["hypotheses"][0] for line in written("--alignments", "--output_format=jsonl")]
    assert [tuple(map(tuple, one["alignment"])) for one in found] == [first.alignment, (), last.alignment]
    (other,) = translator.translate(["1 2 3"], alignments=True, alignment_layer=2, alignment_head=2)[0]
    chosen = written("--output_format=pharaoh", "--alignment_layer=2", "--alignment_head=2")
    assert chosen[0] == " ".join(f"{i}-{j}" for i, j in other.alignment)


@pytest.fixture(scope="module")
def forgetful_run(tiny_run, tmp_path_factory):
    """Flags of a run whose vocabulary has only four of the ten digits."""
    folder = tmp_path_factory.mktemp("forgetful")
    flags = [f"--data_dir={folder / 'data'}", f"--output_dir={folder / 'run'}"]
    asked = [flag for flag in tiny_run.train_flags if not flag.startswith("--data_dir")]
    assert trainer.main(["t2t-trainer", *asked, *flags, "--generate_data", "--vocab_size=7", "--train_steps=20"]) == 0
    return [*flags, "--decode_method=greedy", "--min_output_length=3"]


@pytest.mark.slow
def test_unknown_words_become_words_of_their_line(forgetful_run, tmp_path, capfdbinary):
    source, dictionary = tmp_path / "in", tmp_path / "words"
    source.write_text("7 x 8 y 9\n5 5 z\n")
    dictionary.write_text("x\tX X\n7\tseven\n")

    def written(*flags):
        flags = [*flags, f"--decode_from_file={source}", "--decode_to_file=-", "--output_format=jsonl", "--alignments"]
        assert decoder.main(["t2t-decoder", *forgetful_run, *flags]) == 0
        return [json.loads(line)["hypotheses"][0] for line in capfdbinary.readouterr().out.splitlines()]

    plain, replaced = written(), written("--replace_unknown", f"--unknown_dictionary={dictionary}")
    assert any("<unk>" in one["text"] for one in plain)
    translations = {"x": "X X", "7": "seven"}
    for line, before, after in zip(source.read_text().splitlines(), plain, replaced, strict=True):
        own = {target: line.split()[place] for place, target in before["alignment"]}
        words = enumerate(before["text"].split())
        expected = [translations.get(own[i], own[i]) if word == "<unk>" else word for i, word in words]
        links = renumber_links(tuple(map(tuple, before["alignment"])), expected)
        assert after == before | {"text": " ".join(expected), "alignment": list(map(list, links))}


@pytest.mark.slow
def test_the_score_of_a_split_is_that_of_the_replaced_words(forgetful_run, tiny_run, tmp_path, capsys):
    flags = [*forgetful_run, "--decode_split=test", "--replace_unknown", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(["t2t-decoder", *flags]) == 0
    outputs = (tmp_path / "out").read_text().splitlines()
    sources, references = (
        (tiny_run.raw_dir / f"test.{side}").read_text().splitlines() for side in ("source", "target")
    )
    assert not any("<unk>" in line for line in outputs)
    assert any(set(output.split()) & set(source.split()) for output, source in zip(outputs, sources, strict=True))
    assert str(BLEU().corpus_score(outputs, [references])) in capsys.readouterr().out


def test_a_dictionary_without_unknown_words_to_replace_is_refused(decode, tmp_path, capsys):
    (tmp_path / "words").write_text("a\tb\n")
    assert decode(f"--unknown_dictionary={tmp_path / 'words'}", "--decode_from_file=/dev/null") == 2
    assert "--unknown_dictionary: nothing reads it without --replace_unknown; add that" in capsys.readouterr().err


# === Splits ===


def test_a_split_is_decoded_written_and_scored(decode, tiny_run, translator, tmp_path, capsys):
    target = tmp_path / "out"
    flags = ["--decode_split=test", f"--data_dir={tiny_run.data_dir}", f"--decode_to_file={target}"]
    assert decode(*flags) == 0
    sources, references = (
        (tiny_run.raw_dir / f"test.{side}").read_text().splitlines() for side in ("source", "target")
    )
    hypotheses = target.read_text().split("\n")[:-1]
    assert hypotheses == [best.text for (best,) in translator.translate(sources)]
    bleu = BLEU()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "8 test examples of text2text_files, step-00000040"
    assert out[1] == f"{bleu.corpus_score(hypotheses, [references])} | {bleu.get_signature()}"
    assert out[2].startswith("accuracy_per_sequence = ")
    assert len(out) == 3


def test_a_split_to_standard_output_has_its_score_elsewhere(decode, tiny_run, capsys):
    flags = ["--decode_split=dev", f"--data_dir={tiny_run.data_dir}", "--decode_to_file=-", "--output_format=tsv"]
    assert decode(*flags) == 0
    out, err = capsys.readouterr()
    assert [line.count("\t") for line in out.splitlines()] == [2] * 12
    assert "\nBLEU = " in err


# === Conversation ===


def test_without_a_mode_it_translates_what_is_typed(decode, translator, monkeypatch, capfdbinary):
    typed = io.TextIOWrapper(io.BytesIO(b"1 2 3\n\nq\n"))
    monkeypatch.setattr(sys, "stdin", typed)
    assert decode("--decode_beam_size=1") == 0
    expected = [best.text for (best,) in translator.translate(["1 2 3", "q"], beam_size=1)]
    assert capfdbinary.readouterr().out.decode() == f"{expected[0]}\n\n{expected[1]}\n"


# === Checkpoints and runs ===


@pytest.mark.exhaustive
def test_checkpoints_by_name_and_path(decode, tiny_run, numbers, tmp_path, capsys):
    for name, asked in (
        ("step-00000020", "20"),
        ("step-00000020", tiny_run.output_dir / "checkpoints" / "step-00000020"),
        ("step-00000040", tiny_run.output_dir),
        ("step-00000040", "latest"),
        ("step-00000040", "best"),
    ):
        target = f"--decode_to_file={tmp_path / 'out'}"
        assert decode(f"--decode_from_file={numbers}", target, "--decode_beam_size=1", f"--checkpoint={asked}") == 0
        assert f"/checkpoints/{name} (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--checkpoint=30"], "checkpoint '30': there is none"),
        (
            ["--n_best=3"],
            "n_best=3: beam search of width 2 has from 1 to 2 hypotheses; ask for that many or raise beam_size",
        ),
        (["--problem=other"], "is another: --problem=other asked, text2text_files found; leave these flags out"),
        (
            ["--decode_method=bean"],
            "flag --decode_method=bean: value should be one of <beam|greedy|sample|mask_predict>",
        ),
        (["--sampling_top_k=2"], "hparam sampling_top_k=2: nothing reads it while decode_method=beam"),
    ],
)
def test_mistakes_write_nothing(decode, numbers, tmp_path, flags, message, capsys):
    assert decode(f"--decode_from_file={numbers}", *flags) == 2
    err = capsys.readouterr().err
    assert message in err
    assert os.listdir(tmp_path) == ["numbers"]


def test_a_split_without_its_data(decode, capsys):
    assert decode("--decode_split=dev", "--data_dir=/nowhere") == 2
    assert "no data of text2text_files in /nowhere; make it with t2t-datagen" in capsys.readouterr().err


def test_a_run_of_a_plugin_asks_for_it_and_runs_no_strangers_code(decode, tiny_run, tmp_path, capsys):
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    plugin = {"name": "mine", "kind": "usr_dir", "fingerprint": "f", "registered": ["problem:text2text_files"]}
    with edited(run / "run.json") as record:
        record["plugins"] = [plugin]
    assert decode(output_dir=run) == 2
    assert (
        "was trained with the plug-in 'mine', which has not been loaded; pass its folder as --t2t_usr_dir"
        in capsys.readouterr().err
    )
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    source = tmp_path / "in"
    source.write_text("1\n")
    flags = [f"--decode_from_file={source}", f"--decode_to_file={tmp_path / 'out'}", "--decode_beam_size=1"]
    assert decode(*flags, f"--t2t_usr_dir={folder}", output_dir=run) == 0
    assert "plug-in mine has changed since" in capsys.readouterr().err
