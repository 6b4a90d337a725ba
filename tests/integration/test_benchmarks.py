"""`python -m benchmarks`: known answers pass, wrong ones fail, and each benchmark runs without peers."""

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import known_answers
from benchmarks.__main__ import main, names
from benchmarks.gpu import multi30k
from benchmarks.gpu.model import flops
from benchmarks.gpu.sizes import SIZES
from benchmarks.harness.corpus import FILES, write_synthetic
from benchmarks.known_answers import evalb
from benchmarks.pages import CHROMIUM
from t2t.cli import evalb as evalb_command
from tests.integration.test_scores import GOLD, ROW, TEST

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(capsys):
    def run(*arguments):
        status = main(list(arguments))
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def trees(tmp_path):
    """A folder with files of one sentence and this project's report on it, in which one row is checked by hand."""
    folder = tmp_path / evalb.FOLDER
    folder.mkdir(parents=True)
    for name in ("craft_noised", "sample"):
        (folder / f"{name}.gld").write_text(GOLD)
        (folder / f"{name}.tst").write_text(TEST)
    labels = "".join(f"DELETE_LABEL {label}\n" for label in ("TOP", "-NONE-", ",", ":", "``", "''", "."))
    (folder / "COLLINS.prm").write_text(f"{labels}DELETE_LABEL_FOR_LENGTH -NONE-\nEQ_LABEL ADVP PRT\n")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        evalb_command.main(["t2t-evalb", str(folder / "sample.gld"), str(folder / "sample.tst")])
    assert ROW in out.getvalue()
    (folder / "a.rsl").write_text(out.getvalue())
    (folder / "old.rsl").write_text(out.getvalue().replace(ROW, "\n" + ROW.lstrip()))
    return tmp_path


def compare_trees(data):
    """Returns (check, found, ok) of each comparison with the files of `trees`."""
    rows = evalb.check(
        data, reports=[("sample", "COLLINS", "a.rsl"), ("sample", "COLLINS.prm", "a.rsl")],
        with_errors=("sample", "COLLINS", "old.rsl"), settings=[("COLLINS", "COLLINS.prm")],
        metrics={"bracket_f1": "57.14", "bracket_crossing": "1.00"},  # 4/7
    )  # fmt: skip
    return [(row["check"], row["found"], row["ok"]) for row in rows]


def test_answers_are_compared_with_those_that_are_known(trees):
    right = compare_trees(trees)
    assert right == [
        ("t2t-evalb -p COLLINS sample", "35 equal lines", True),
        ("t2t-evalb -p COLLINS.prm sample", "35 equal lines", True),
        ("t2t-evalb -p COLLINS sample", "33 equal lines", True),  # without blank lines
        ("built-in settings COLLINS", "equal", True),
        ("bracket_f1 of craft_noised", "57.14", True),
        ("bracket_crossing of craft_noised", "1.00", True),
    ]
    report, settings = (trees / evalb.FOLDER / name for name in ("a.rsl", "COLLINS.prm"))
    report.write_text(report.read_text().replace("50.00", "50.01"))
    settings.write_text("DELETE_LABEL TOP\nCUTOFF_LEN 9\n")
    wrong = compare_trees(trees)
    assert [ok for _, _, ok in wrong] == [False, False, True, False, True, True]
    assert wrong[0][1].startswith("line 4: ")
    assert ROW.strip() in wrong[0][1]


def test_comparisons_that_failed_or_lack_their_files_are_named(run, tmp_path, capsys):
    known_answers.print_table([known_answers.Row(check="a", expected="1", found="1", ok=True)])
    assert capsys.readouterr() == (
        "| check | expected | found | |\n|---|---|---|---|\n| a | 1 | 1 | ok |\n\n1 of 1 known answers met\n", "",
    )  # fmt: skip
    status, out, err = run("known_answers", f"--data={tmp_path}", "--only=evalb,bleu")
    assert (status, err) == (1, "failed: evalb\nfailed: bleu\n")
    assert re.search(r"^\| bleu \| .*/newstest2017.ref.de.gz: .* \| FAILS \|$", out, re.M)


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["known_answer"], "known_answer known_answers"),
        (["known_answers", "--data=/nowhere"], "--data=/nowhere"),
        (["known_answers", "--data=.", "--only=bleu,evlb"], "--only=bleu,evlb 'evlb' evalb"),
        (["training", "--peers=hf_maria"], "--peers=hf_maria hf_marian"),
        (["training", "--data=/nowhere"], "--data=/nowhere"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, arguments, about):
    home = [f"--peers_home={tmp_path}"] if arguments[0] == "training" else []
    status, out, err = run(*arguments, *home)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("benchmarks: error: ")
    assert [word for word in about.split() if word not in err] == []


def test_benchmarks_are_listed(run):
    status, out, err = run()
    assert (status, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == names()
    assert "known_answers     Compares the project's output" in out


def python_m(*arguments):
    """Runs `python -m benchmarks`, which must succeed; returns its output."""
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compare(work, tmp_path, *flags):
    """Runs a benchmark on a little synthetic text; returns its rows, keyed by (work, peer), and its output."""
    small = ("--pairs=400", "--vocab_size=600", "--threads=1", "--turns=1", "--again=0", f"--json={tmp_path / 'rows'}")
    out = python_m(work, f"--peers_home={tmp_path / 'home'}", *small, *flags)
    rows = json.loads((tmp_path / "rows").read_text())
    assert all({"work", "config", "peer", "ours", "theirs", "ratio", "machine"} <= set(row) for row in rows)
    return {(row["work"], row["peer"]): row for row in rows}, out


@pytest.mark.exhaustive  # that each program decodes what is compared, also with random weights
@pytest.mark.parametrize(("steps", "extra"), [("2", None), ("1", 10)])
def test_decoding_runs_without_peers(tmp_path, steps, extra):
    flags = ("--peers=", f"--train_steps={steps}", "--sentences=4", "--batch=2", "--beams=2,1")
    rows, _ = compare("decoding", tmp_path, *flags)
    for work in ("beam2", "beam1", "beam1.first_pass"):
        assert rows[f"decoding.{work}", None]["ours"] > 0
    if extra:  # every output has the maximum length
        assert rows["decoding.beam2", None]["weights"] == "random weights, fixed lengths"
        assert "cannot make outputs go on" in rows["decoding", "t2t_ctranslate2"]["reason"]
    else:
        assert rows["decoding.beam2", "t2t"]["side"] == "t2t_ctranslate2"
        assert rows["decoding.beam2", "t2t"]["about"]["t2t_ctranslate2"].startswith("CTranslate2 ")
        assert rows["decoding.identical", "t2t_ctranslate2"]["ours"] > 0.5
        assert rows["decoding.best.beam1", None]["side"] in ("t2t", "t2t_ctranslate2")


@pytest.mark.exhaustive  # that models are compared in size, training and decoding
def test_models_are_compared_with_the_transformer(tmp_path):
    flags = ("--sets=transformer_multi30k_tiny,byte_net_multi30k_tiny", "--warm=1", "--steps=1", "--sentences=4")
    rows, _ = compare("models", tmp_path, *flags, "--vocab_size=600")
    for work in ("models.parameters", "models.training", "models.greedy", "models.training.peak_memory"):
        assert rows[work, "byte_net_multi30k_tiny"]["side"] == "transformer_multi30k_tiny"
        assert rows[work, "byte_net_multi30k_tiny"]["theirs"] > 0


@pytest.mark.exhaustive  # that no request is lost under load, counted by its clients
def test_serving_loses_nothing(tmp_path, tiny_run):
    flags = (f"--run={tiny_run.output_dir}", "--clients=1,40", "--seconds=2", "--warm_up=1", "--beam=2")
    rows, _ = compare("serving", tmp_path, *flags)
    for load in ("tensorflow.clients1", "tensorflow.clients40", "tensorflow.clients40.room16"):
        assert rows[f"serving.{load}.answered", None]["ours"] > 0
        assert 0 < rows[f"serving.{load}.p50", None]["ours"] <= rows[f"serving.{load}.p99", None]["ours"]
        for never in ("lost", "other_statuses", "texts_of_two_translations"):
            assert rows[f"serving.{load}.{never}", None]["ours"] == 0
    assert rows["serving.tensorflow.clients40.refused", None]["ours"] == 0


@pytest.mark.exhaustive  # that generation is compared on the same text
def test_datagen_is_compared_with_sentencepiece(tmp_path):
    rows, _ = compare("datagen", tmp_path, "--steps=2", "--warm=1")
    assert rows["datagen", "sentencepiece"]["pairs"] == 400
    assert rows["datagen", "sentencepiece"]["ratio"] > 0
    assert rows["datagen.padding.fixed", None]["shapes"] <= 32


@pytest.mark.exhaustive  # that what a process holds does not grow in six hundred updates
def test_a_long_training_holds_no_more_and_more(tmp_path):
    python_m("soak", "--updates=600", "--every=50", f"--json={tmp_path / 'found'}")
    found = json.loads((tmp_path / "found").read_text())
    later = found["held"][6:]
    assert [one["update"] for one in later] == [350, 400, 450, 500, 550, 600]
    for what in ("files", "threads"):  # briefly one more while a shard is read
        counts = [one[what] for one in later]
        assert min(counts[3:]) <= min(counts[:3])
    # In so few updates some shapes still occur for the first time; later memory does not grow.
    assert found["mb_in_a_thousand_updates"] < 200


@pytest.mark.slow  # that `python -m benchmarks all` makes its page
def test_all_of_them_in_small(tmp_path):
    only = "startup,training-tiny,serving,memory"
    python_m("all", "--quick", "--no_peers", "--again=0", f"--only={only}", f"--home={tmp_path}")
    page = (tmp_path / "results" / "page.md").read_text()
    sections = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    # The table of best variants comes first; it is missing if other processes disturbed the measurements.
    assert ",".join(sections).removeprefix("The best variants of each program,") == only
    for work in ("startup.help", "training", "serving.tensorflow.clients2.answered"):
        assert f"\n| {work} | " in page
    assert "\n| 400 | generation | " in page


@pytest.mark.exhaustive  # that a comparison goes on without a peer
def test_a_peer_that_cannot_be_had_is_named_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    rows, out = compare("decoding", tmp_path, "--peers=ctranslate2", "--train_steps=1", "--sentences=2", "--batch=2")
    row = rows["decoding", "ctranslate2"]
    assert (row["ours"], row["ratio"]) == (None, None)
    assert row["reason"].startswith("installing ctranslate2 failed: ERROR: ")
    assert "- decoding, ctranslate2: not measured: installing ctranslate2 failed: " in out


@pytest.mark.browser
@pytest.mark.slow  # that a browser times the pages
def test_pages_are_timed_until_they_can_be_used():
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed: no browser test")
    if not any(map(shutil.which, CHROMIUM)):
        pytest.skip(f"no browser: none of {', '.join(CHROMIUM)} is installed")
    # In a separate process: Playwright runs one browser per process.
    out = python_m("pages", "--runs=3", "--points=40", "--turns=1")
    rows = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \|$", out, re.M)
    assert [name for name, *_ in rows] == ["Runs", "Curves", "Hparams"]
    assert all(0 < float(first) <= float(last) for _, first, last in rows)


# === `python -m benchmarks gpu` runs to the end on a CPU with toy sizes ===
SMALL = ("--steps=2", "--turns=1", "--batch_size=64", "--length=8", "--vocab_size=100")


@pytest.mark.slow  # that both steps are measured, which are compiled
def test_it_runs_without_a_gpu(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    command = ["gpu", "--config=tiny", "--peers=", *SMALL, f"--folder={tmp_path}", f"--json={tmp_path / 'rows.json'}"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "| training on a GPU | tiny, xla=on |" in printed.out
    assert (tmp_path / "page.md").read_text() == printed.out
    rows = json.loads((tmp_path / "rows.json").read_text())
    (tmp_path / "tiny-xla=off.json").unlink()
    assert main(command) == 0  # the second time, only what is missing is measured
    assert capsys.readouterr().err == "== tiny, xla=off\n"
    again = json.loads((tmp_path / "rows.json").read_text())
    assert [row["ours"] for row in again[:2]] == [row["ours"] for row in rows[:2]]
    for config, rate, share in zip(("tiny, xla=on", "tiny, xla=off"), rows[::2], rows[1::2], strict=True):
        assert rate["ours"] > 0
        assert share["ours"] == pytest.approx(rate["ours"] / 64 * rate["flops"] / rate["matrix_flops"])
        assert (rate["work"], rate["config"], rate["peer"], rate["theirs"], rate["ratio"]) == (
            "training on a GPU", config, None, None, None,
        )  # fmt: skip
    assert [row["job"]["rules"]["xla"] for row in rows] == [True, True, False, False]


def test_a_backend_and_a_size_that_are_not_there_are_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "abacus")
    assert main(["gpu", "--config=tiny", *SMALL, f"--folder={tmp_path}"]) == 1
    assert "error: benchmarks.gpu.our_step ended with status 1: " in capsys.readouterr().err
    assert main(["gpu", "--config=bsae"]) == 2
    assert "no 'bsae'; did you mean base?" in capsys.readouterr().err


@pytest.mark.slow  # that the sequence of commands runs, and goes on where it was cut off
def test_multi30k_from_its_text_to_its_score(tmp_path, capsys):
    for stem, files in write_synthetic(tmp_path / "text", 60).items():
        for side, file in zip(("en", "de"), files, strict=True):
            file.rename(tmp_path / f"{FILES[stem]}.lc.norm.tok.{side}")
    lines = multi30k.train(tmp_path, tmp_path / "run", train_steps=3, vocab_size=300)
    assert [line.split(" | ")[0] for line in lines[2:-2]] == [f"| {name}" for name in (
        "data", "training", "last epochs", "average", "decoding", "score",
    )]  # fmt: skip
    assert "BLEU" in lines[-1]
    record = tmp_path / "run" / "commands.json"
    known = json.loads(record.read_text())
    del known["score"]["command"]  # as if it had been interrupted
    record.write_text(json.dumps(known))
    capsys.readouterr()
    assert multi30k.train(tmp_path, tmp_path / "run", train_steps=3, vocab_size=300)[-1] == lines[-1]
    assert capsys.readouterr().err.count("== ") == 1


def test_operations_of_the_paper_s_base_model():
    """6 + 6 layers of d 512, 37,000 pieces: 3.8e8 operations per pair of tokens, 9.5e17 in docs/numerics.md."""
    job = {"config": SIZES["base"], "rows": 800, "length": 32, "vocab_size": 37_000}
    assert flops(job) * 100_000 * 25_000 / (800 * 32) == pytest.approx(9.5e17, rel=0.02)
