"""The decoder's command line, its conversation and its flags of languages, without a model."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from t2t.cli import decoder, decoding
from t2t.cli.decoding import (
    check_scoring,
    check_split_languages,
    decode_interactively,
    default_target,
    print_scores,
)
from t2t.data.generation.generate import generate
from t2t.errors import UserError
from t2t.hparams.groups import DecodeHParams
from t2t.inference.files import decoding as file_decoding
from t2t.inference.files.report import Report
from t2t.inference.hypothesis import NOTHING, Hypothesis
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.runs.loading import LoadedRun, open_to_decode
from t2t.runs.names import get_problem
from t2t.search.settings import SearchSettings
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.in_process import check_refused
from tests.many_runs import create_run


class Echo:
    """A fake translator: writes each text in capitals, with its index and one line `!` per rank of the hypothesis."""

    longest_input, has_inputs = 100, True

    def settings(self, n_best=1, **changes):
        if n_best > 3:
            raise UserError(f"n_best={n_best}: too many")
        return SearchSettings(), DecodeHParams()

    def encode(self, texts):
        return [list(text) for text in texts]

    def translate_ids(self, sentences, n_best=1, *, seeds, **changes):
        (letters,), (seed,) = sentences, seeds
        if self.has_inputs and not "".join(letters).strip():
            return [[NOTHING]]
        text = f"{''.join(letters).upper()}@{seed}"
        return [[Hypothesis(text + "\n!" * rank, (), -0.5 - rank, -1.0 - rank) for rank in range(n_best)]]


def typed(monkeypatch, content: bytes, terminal=False):
    stdin = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")
    stdin.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stdin", stdin)


# === Conversation ===
def test_without_a_terminal_there_is_one_line_for_each_line_and_no_prompt(monkeypatch, capfdbinary):
    typed(monkeypatch, "a dog\r\n\nq\nüb\u2028er\nÿ".encode() + b"\xff\nlast")
    decode_interactively(Echo())
    out, err = capfdbinary.readouterr()
    assert out.decode().split("\n") == ["A DOG@0", "", "Q@2", "ÜB\u2028ER@3", "Ÿ\ufffd@4", "LAST@5", ""]
    assert err == b""


def test_on_a_terminal_there_is_a_prompt_until_the_input_ends(monkeypatch, capsys):
    typed(monkeypatch, b"a dog\nq\n\xff\n", terminal=True)
    decode_interactively(Echo())
    out, err = capsys.readouterr()
    assert out == "> A DOG@0\n> Q@1\n> \ufffd@2\n> \n"
    assert err == "type a text and press Enter; end with Ctrl-D\n"


def test_several_outputs_are_shown_with_their_scores_and_settings_checked_before_the_first_prompt(monkeypatch, capsys):
    typed(monkeypatch, b"x\n", terminal=True)
    decode_interactively(Echo(), n_best=2)
    assert capsys.readouterr().out == ">    -0.5000  X@0\n   -1.5000  X@0 !\n> \n"
    typed(monkeypatch, b"x\n", terminal=True)
    with refused("n_best=4:"):
        decode_interactively(Echo(), n_best=4)
    assert capsys.readouterr().out == ""


def test_other_formats_are_those_of_files_and_a_language_model_begins_with_nothing(monkeypatch, capfdbinary):
    typed(monkeypatch, b"x\n\n")
    decode_interactively(Echo(), n_best=2, output_format="tsv")
    assert capfdbinary.readouterr().out.decode().split("\n") == [
        "X@0\t-0.500000\t-1.000000\tX@0 !\t-1.500000\t-2.000000",
        "\t0.000000\t0.000000\t\t\t",
        "",
    ]
    typed(monkeypatch, b"\n")
    continuer = Echo()
    continuer.has_inputs = False
    decode_interactively(continuer)
    assert capfdbinary.readouterr().out == b"@0\n"


# === Names of outputs ===
@pytest.mark.parametrize(
    ("source", "hparams", "output_format", "expected"),
    [
        ("a.en", DecodeHParams(), "text", "a.en.transformer.transformer_base.wmt.beam4.alpha0.6.decodes"),
        ("x/a.gz", DecodeHParams(beam_size=8, alpha=1.0), "tsv",
         "x/a.gz.transformer.transformer_base.wmt.beam8.alpha1.decodes.tsv"),
        ("a", DecodeHParams(decode_method="greedy"), "jsonl",
         "a.transformer.transformer_base.wmt.greedy.decodes.jsonl"),
        ("a", DecodeHParams(decode_method="sample", sampling_temperature=0.5), "text",
         "a.transformer.transformer_base.wmt.sample.temperature0.5.decodes"),
        ("a", DecodeHParams(decode_method="greedy"), "files",
         "a.transformer.transformer_base.wmt.greedy.decodes"),
        ("-", DecodeHParams(), "text", "-"),
    ],
)  # fmt: skip
def test_the_default_name_is_tensor2tensors(source, hparams, output_format, expected):
    record = SimpleNamespace(model="transformer", hparams_set="transformer_base", problem="wmt")
    assert default_target(source, record, hparams, output_format) == expected


def test_flags_become_what_is_wanted():
    values = decoder.build_flags()
    values(["t2t-decoder", "--n_best=3", "--output_format=jsonl", "--decode_window=9", "--random_seed=5"])
    assert decoding.job_fields(values) == {
        "n_best": 3, "output_format": "jsonl", "window": 9, "prefixes": "", "constraints": "", "changes": {"seed": 5},
    }  # fmt: skip


# === Scores of a file ===
@pytest.mark.parametrize(
    ("problem", "output", "reference", "printed"),
    [
        ("text2text_files", "a b c d", "a b c d", ["BLEU = 100.00", "accuracy_per_sequence = 1.0000"]),
        ("classify_files", "good\ngood", "good\nbad", ["accuracy_per_sequence = 0.5000"]),
        ("speech_files", "a b", "a c", ["wer = 0.5000"]),
        ("wmt_ende_bpe32k", "eine alte kleine Hausnummer", "eine alte kleine Haus@@ num@@ mer", ["BLEU = 100.00"]),
        # Of the brackets S 0-2, NP 0-1, VP 1-2, two are right, and those are all.
        (
            "parsing_trees",
            "(TOP (S (NP (NN a)) (VP (VB b))))",
            "(TOP (S (NP (NN a)) (VB b)))",
            [f"{name} = 80.00" for name in ("bracket_f1_gold_tags", "bracket_f1")],
        ),
    ],
)
def test_a_file_is_scored_by_the_metrics_of_its_problem(problem, output, reference, printed, tmp_path, capsys):
    for name, lines in (("outputs", output), ("references", reference)):
        (tmp_path / name).write_text(f"{lines}\n")
    print_scores(get_problem(problem), "unread", f"{tmp_path}/outputs", f"{tmp_path}/references", "")
    found = capsys.readouterr().out.splitlines()
    assert [line[: len(start)] for line, start in zip(found, printed, strict=False)] == printed


def test_a_file_is_scored_against_several_references(tmp_path, capsys):
    for name, lines in (("outputs", "a b c d\ne f g h"), ("one", "a b c d\nx"), ("two", "x\ne f g h")):
        (tmp_path / name).write_text(f"{lines}\n")
    names = f"{tmp_path}/one,{tmp_path}/two"
    print_scores(get_problem("text2text_files"), "unread", f"{tmp_path}/outputs", names, "")
    found = capsys.readouterr().out.splitlines()
    assert [line[:13] for line in found] == ["BLEU = 100.00", "accuracy_per_"]
    assert found[1].startswith("accuracy_per_sequence = 1.0000")
    with refused("'wer':"):
        check_scoring(names, DecodeHParams(), [get_problem("speech_files")])


# === The decoder's flags of languages, with a run whose inputs have language tags; no model decodes ===
PROBLEM = "text2text_files"
OPTIONS = {"language_tags": "de,zh", "target_language": "de"}
SIDES = [f"{split}_{side}" for split in ("train", "dev") for side in ("source", "target")]
OUTPUTS, REFERENCES = "我喜欢吃苹果\n", "我喜欢吃香蕉\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Flags of a run with a dummy checkpoint, which writes German unless it is asked for Chinese, and of its data."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "lines").write_text("a b\nc\n")
    TokenEncoder(["<2de>", "<2zh>", *"abc"]).save(folder / "words.tokens")
    options = OPTIONS | {"vocab_file": str(folder / "words.tokens")}
    options |= dict.fromkeys(SIDES, str(folder / "lines"))
    generate(get_problem(PROBLEM, options), folder / "data", folder, workers=1)
    asked = RunConfig(problem=PROBLEM, problem_options=options, data_dir=str(folder / "data"))
    problem = open_data(asked, get_problem(PROBLEM, options)).problem
    create_run(folder / "run", PROBLEM, problem.spec(), problem.encoders, step=5, problem_options=options)
    return [f"--output_dir={folder / 'run'}", f"--data_dir={folder / 'data'}"]


@pytest.fixture
def written(monkeypatch):
    """Puts `OUTPUTS` in place of what a model would write, also with Apache Beam."""

    class Loaded(LoadedRun):
        def translator(self):
            return SimpleNamespace(most_ids="9 ids")

    def load_runs(values, runs, problem, many_rows):
        run, opened, hparams = open_to_decode(runs[0].path, problem=problem)
        return Loaded(run, opened, None, hparams, None)

    def write(target):
        Path(target).write_text(OUTPUTS, encoding="utf-8")
        return Report()

    monkeypatch.setattr(decoder, "load_runs", load_runs)
    monkeypatch.setattr(file_decoding, "decode_file", lambda translator, asked: write(asked.target))
    monkeypatch.setattr(decoder, "_answer_by_beam", lambda *args: None)
    monkeypatch.setattr(decoder, "merge_file", lambda source, target: write(target))


@pytest.mark.parametrize("beam", [(), ("--beam_options=--runner=DirectRunner",)])
@pytest.mark.parametrize(("asked", "tokenizer"), [((), "13a"), (("--target_language=zh",), "zh")])
def test_bleu_splits_words_of_the_language_that_was_asked_for(run, written, tmp_path, capsys, beam, asked, tokenizer):
    for name, lines in (("in", "a\n"), ("reference", REFERENCES)):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    files = {"decode_from_file": "in", "decode_to_file": "out", "decode_reference": "reference"}
    flags = [f"--{flag}={tmp_path / name}" for flag, name in files.items()]
    assert decoder.main(["t2t-decoder", *run, *flags, *beam, *asked]) == 0
    assert f"tok:{tokenizer}|" in capsys.readouterr().out


def test_lines_with_alignments_have_no_reference_with_apache_beam_either(run, tmp_path):
    """test_cli_early has the same without, in a process that would not load Apache Beam."""
    (tmp_path / "lines").write_text("a b\n")
    flags = [f"--{name}={tmp_path}/lines" for name in ("decode_from_file", "decode_reference")]
    flags += [f"--decode_to_file={tmp_path}/out", "--alignments", "--beam_options=--runner=DirectRunner"]
    check_refused(decoder, *run, *flags, about="alignments=True --alignments")


@pytest.mark.parametrize("asked", ["--target_language=zh", "--source_language=fr"])
def test_a_split_has_the_languages_of_its_problem(run, asked):
    check_refused(decoder, *run, "--decode_split=dev", asked, about=f"{asked}: --decode_split {PROBLEM},")


def test_the_language_that_a_split_has_may_be_named():
    values = decoder.build_flags()
    values(["t2t-decoder", "--decode_split=dev", "--target_language=de"])
    check_split_languages(values, get_problem(PROBLEM, OPTIONS))
