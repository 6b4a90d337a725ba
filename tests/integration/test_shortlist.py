"""`t2t-shortlist` learns from a run's data, and `--shortlist` decodes with it."""

import re
import shutil

import pytest

import t2t
from t2t.cli import decoder, shortlist
from t2t.cli import eval as eval_command
from t2t.errors import UserError
from t2t.inference.ctranslate2.engine import CTranslate2Engine


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy of the run in which a shortlist may be stored."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def learn(run, tiny_run, *flags):
    return shortlist.main(["t2t-shortlist", f"--output_dir={run}", f"--data_dir={tiny_run.data_dir}", *flags])


@pytest.mark.slow
def test_a_command_learns_it_and_the_others_use_it(run, tiny_run, tmp_path, capsys):
    """Targets are reversed digits, so each digit translates to itself, and with K = 1 only to itself."""
    assert learn(run, tiny_run, "--frequent=0", "--translations=1") == 0
    printed = capsys.readouterr().out
    assert re.search(r"learned from 300 examples; dev: \d candidates for an input, among them 100\.0 % of", printed)
    source, target = tiny_run.raw_dir / "dev.source", tmp_path / "out"
    files = [f"--decode_from_file={source}", f"--decode_to_file={target}"]
    assert decoder.main(["t2t-decoder", f"--output_dir={run}", "--shortlist", *files]) == 0
    read, written = (path.read_text().splitlines() for path in (source, target))
    assert len(read) == len(written) == 12
    for line, output in zip(read, written, strict=True):
        assert set(output.split()) <= set(line.split())
    found = t2t.load(run).translate(read, shortlist=True)
    assert [one.text for (one,) in found] == written
    flags = [f"--output_dir={run}", f"--data_dir={tiny_run.data_dir}", "--shortlist"]
    assert eval_command.main(["t2t-eval", *flags]) == 0


def test_python_learns_what_the_command_learns(run, tiny_run, capsys):
    assert learn(run, tiny_run) == 0
    printed = capsys.readouterr().out
    arrays = next((run / "shortlist").glob("*/*.safetensors"))
    content = arrays.read_bytes()
    report = t2t.learn_shortlist(run, tiny_run.data_dir)
    assert f"{report}\nwritten to {report.folder}\n" == printed
    assert report.coverage == 1.0
    assert arrays.read_bytes() == content
    with pytest.raises(
        UserError, match=r"^t2t\.learn_shortlist: there is no argument 'freqent'; did you mean frequent"
    ):
        t2t.learn_shortlist(run, tiny_run.data_dir, freqent=3)
    with pytest.raises(UserError, match="option translations=0: it is at least 1"):
        t2t.learn_shortlist(run, tiny_run.data_dir, translations=0)


def test_some_examples_are_enough_where_it_is_asked_for(run, tiny_run):
    assert t2t.learn_shortlist(run, tiny_run.data_dir, max_examples=50).examples == 50


def test_a_run_without_one_is_refused_at_once(run, capsys):
    assert decoder.main(["t2t-decoder", f"--output_dir={run}", "--shortlist"]) == 2
    wanted = (
        f"shortlist=True: {run} has no shortlist of text2text_files; learn it with t2t-shortlist --output_dir={run}"
    )
    assert capsys.readouterr().err == f"t2t-decoder: error: {wanted}\n"
    with pytest.raises(UserError, match=r"^shortlist=True: .* learn it with t2t-shortlist --output_dir="):
        t2t.load(run).translate(["1 2"], shortlist=True)


@pytest.mark.slow
def test_ctranslate2_leaves_it_to_tensorflow(run, tiny_run, caplog, monkeypatch):
    t2t.learn_shortlist(run, tiny_run.data_dir, frequent=0, translations=1)
    slow, fast = t2t.load(run), t2t.load(run, engine="ctranslate2")
    monkeypatch.setattr(CTranslate2Engine, "decode", None)
    found = fast.translate(["1 2 3"], shortlist=True)
    assert found[0][0].ids == slow.translate(["1 2 3"], shortlist=True)[0][0].ids
    assert "its shortlists are those of a batch, so that an output would depend on what else is in it" in caplog.text


def test_training_and_exports_refuse_it(run, tiny_run, tmp_path):
    with pytest.raises(UserError, match="hparam shortlist=True: a shortlist is learned for a trained run, and"):
        t2t.train(output_dir=run, data_dir=tiny_run.data_dir, hparams={"shortlist": True})
    t2t.learn_shortlist(run, tiny_run.data_dir)
    with pytest.raises(UserError, match="hparam shortlist=True: an export searches all pieces; leave it out"):
        t2t.export_model(run, tmp_path / "export", data_dir=tiny_run.data_dir, hparams={"shortlist": True})
