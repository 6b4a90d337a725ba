"""`--engine`: the commands and the Python functions decode a run with CTranslate2."""

import re
import shutil

import numpy as np
import pytest

import t2t
from t2t.cli import decoder
from t2t.cli import eval as eval_command
from t2t.errors import UserError

GREEDY = "--decode_method=greedy"


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run, for conversions to be kept in."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def test_a_file_has_the_same_outputs(run, tiny_run, tmp_path, capsys):
    source, written = tiny_run.raw_dir / "train.source", []
    for engine in ("tensorflow", "ctranslate2"):
        target = tmp_path / engine
        flags = [f"--output_dir={run}", f"--engine={engine}", GREEDY]
        assert decoder.main(["t2t-decoder", *flags, f"--decode_from_file={source}", f"--decode_to_file={target}"]) == 0
        written.append(target.read_text())
    assert written[0] == written[1]
    assert written[0].count("\n") == 300
    assert len([folder for folder in (run / "cache/ctranslate2").iterdir() if folder.is_dir()]) == 1


def test_evaluation_has_the_same_scores(run, tiny_run, capsys):
    printed = []
    for engine in ("tensorflow", "ctranslate2"):
        flags = [f"--output_dir={run}", f"--data_dir={tiny_run.data_dir}", f"--engine={engine}", GREEDY]
        assert eval_command.main(["t2t-eval", *flags]) == 0
        printed.append(re.findall(r"^(?:accuracy|BLEU|bleu).*", capsys.readouterr().out, re.MULTILINE))
    assert printed[0] == printed[1] != []


def test_python_loads_it_by_name(run):
    slow, fast = t2t.load(run), t2t.load(run, engine="ctranslate2")
    pairs = [("1 2 3", "3 2 1"), ("4", "4")]
    np.testing.assert_allclose(fast.score(pairs), slow.score(pairs), rtol=1e-4)
    with pytest.raises(UserError, match=r"^compute_type=int8: engine=tensorflow decodes in float32; ask for engine="):
        t2t.load(run, compute_type="int8")


def test_a_wrong_pair_of_flags_ends_the_command_at_once(run, capsys):
    assert decoder.main(["t2t-decoder", f"--output_dir={run}", "--compute_type=int8"]) == 2
    assert "--compute_type=int8: --engine=tensorflow decodes in float32" in capsys.readouterr().err
