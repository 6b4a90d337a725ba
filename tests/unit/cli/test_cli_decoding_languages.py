"""The decoder's flags of languages, with a run whose inputs have language tags; no model decodes."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import decoder
from t2t.cli.decoding import check_split_languages
from t2t.data.generate import generate
from t2t.hparams.transformer import transformer_tiny
from t2t.inference.files import job
from t2t.inference.files.report import Report
from t2t.runs.data import open_data
from t2t.runs.loading import LoadedRun, open_to_decode
from t2t.runs.names import Request, get_problem
from t2t.text.token import TokenEncoder
from t2t.text.vocabulary_files import describe_encoders
from tests.in_process import check_refused

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
    asked = Request(problem=PROBLEM, problem_options=options, data_dir=str(folder / "data"))
    problem = open_data(asked, get_problem(PROBLEM, options)).problem
    record = RunRecord(
        problem=PROBLEM, problem_options=options, model="transformer", hparams_set="transformer_tiny",
        hparams=transformer_tiny().to_dict(), spec=problem.spec(), vocabularies=describe_encoders(problem.encoders),
    )  # fmt: skip
    created = RunDir.create(folder / "run", record, problem.encoders)
    CheckpointStore(created.checkpoints_folder).save(5, model={"a": np.zeros(1)}, state={"seed": 0, "data": {}})
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
    monkeypatch.setattr(job, "decode_file", lambda translator, asked: write(asked.target))
    monkeypatch.setattr(decoder, "answer_by_beam", lambda *args: None)
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
