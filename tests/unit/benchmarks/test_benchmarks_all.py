"""`python -m benchmarks all`: the page of all tables, which parts are rerun, and turns disturbed by other processes."""

import argparse
import contextlib
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main as benchmark
from benchmarks.all import main
from benchmarks.harness import child
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.parts import PARTS, Part
from benchmarks.harness.processes import SideError
from benchmarks.harness.quality_runs import Runs
from benchmarks.harness.rows import is_disturbed, row, table, without_disturbed
from benchmarks.harness.variants import groups
from benchmarks.quality import main as compare_quality
from t2t.errors import UnknownNameError
from t2t.registry import HPARAMS
from tests.errors import refused
from tests.readme import ROOT

FAKE = """#!{python}
import json, os, pathlib, sys
name, *flags = sys.argv[3:]
home = pathlib.Path({home!r})
with open(home / "calls", "a") as calls:
    print(name, file=calls)
if (home / (name + ".fails")).exists():
    sys.exit("it has no wheel")
others = json.loads((home / "others").read_text()) if (home / "others").exists() else [0.0]
row = dict(work=name, config="tiny", side="t2t", peer=None, ours=7.0, theirs=None, ratio=None, unit="s", better="lower",
           ours_turns=[7.0] * len(others), theirs_turns=[], ours_others=others)
pathlib.Path(flags[-1].partition("=")[2]).write_text(json.dumps([row]))
print("| printed |")
"""


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a fake script in place of three benchmarks, one without rows; returns status, benchmarks run and output."""
    script = tmp_path / "python"
    script.write_text(FAKE.format(python=sys.executable, home=str(tmp_path)))
    script.chmod(0o755)
    three = (
        Part(name="one", benchmark="first"),
        Part(name="two", benchmark="second"),
        Part(name="three", benchmark="third", has_rows=False),
    )

    def run(*flags, parts=three):
        (tmp_path / "calls").write_text("")
        status = main([f"--home={tmp_path}", *flags], parts, str(script))
        return status, (tmp_path / "calls").read_text().split(), capsys.readouterr().out

    return run


@pytest.fixture
def page(tmp_path):
    return lambda: (tmp_path / "results" / "page.md").read_text()


def test_all_tables_are_on_the_page_and_finished_ones_are_not_run_again(run, page, tmp_path):
    assert run()[:2] == (0, ["first", "second", "third"])
    assert (
        page().index("## one")
        < page().index("| first | tiny | t2t | s | 7 / 7 / 7 |  |  |  |")
        < page().index("## two")
    )
    assert page().endswith("| printed |\n")
    assert f"python -m benchmarks first --peers_home={tmp_path} --again=2\n" in page()
    written = json.loads((tmp_path / "results" / "page.json").read_text())
    assert [one["rows"][0]["work"] for one in written["benchmarks"]] == ["first", "second", "third"]
    assert run()[1] == []
    assert "## one" in page()
    assert run("--turns=5")[1] == ["first", "second"]  # the third takes no turns
    assert run("--turns=5", "--fresh", "--only=two")[1] == ["second"]


def test_disturbed_figures_are_not_published_and_taken_again(run, page, tmp_path):
    (tmp_path / "others").write_text("[0.5, 0.2]")
    status, called, out = run("--only=one")
    assert (status, called) == (0, ["first"])
    assert "| first | tiny | t2t | s | disturbed |  |  |  |\n" in page()
    assert "one: other processes disturbed 1 of 1 rows; the same command runs it again" in out
    (tmp_path / "others").write_text("[0.5, 0.02]")
    assert run("--only=one")[1] == ["first"]
    assert "| 7 / 7 / 7 |" in page()
    assert run("--only=one")[1] == []


def test_a_benchmark_that_fails_is_named_and_run_again(run, page, tmp_path):
    (tmp_path / "second.fails").touch()
    status, called, out = run()
    assert (status, called) == (1, ["first", "second", "third"])
    assert "No figures: it ended with status 1: it has no wheel" in page()
    assert "two: ended with status 1: it has no wheel; the same command runs it again" in out
    (tmp_path / "second.fails").unlink()
    assert run()[:2] == (0, ["second"])


def test_the_best_variants_stand_first_and_mistakes_are_named(run, page):
    run(parts=[Part(name="one", benchmark="speed.best")])
    line = "| speed.best | tiny | t2t | s | 7 / 7 / 7 |  |  |  |\n"
    assert page().count(line) == 2
    assert page().index("## The best variants of each program") < page().index(line) < page().index("## one")
    with refused("--only=tow", "two?", "three", by=UnknownNameError):
        run("--only=tow")
    with refused("--data=/nowhere"):
        run("--data=/nowhere")


def test_another_machine_is_another_result(run, tmp_path):
    run("--only=one")
    path = tmp_path / "results" / "one.json"
    path.write_text(json.dumps({**(was := json.loads(path.read_text())), "machine": {**was["machine"], "cores": 1000}}))
    assert run("--only=one")[1] == ["first"]
    assert run("--only=one")[1] == []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_takes_its_flags(part, monkeypatch):
    """Otherwise a wrong flag would be noticed only after hours."""

    class ParsedError(Exception):
        pass

    def parse(parser, argv, original=argparse.ArgumentParser.parse_args):
        original(parser, argv)
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    for flags in (part.full, part.quick or ()):
        with pytest.raises(ParsedError):
            importlib.import_module(f"benchmarks.{part.benchmark}").main(list(flags))


def test_only_undisturbed_turns_count_and_a_share_is_never_disturbed():
    one = row("work", "tiny", [10.0, 90.0, 20.0], unit="s", peer="a", theirs=[5.0, 1.0],
              ours_others=[0.0, 0.9, 0.1], theirs_others=[0.0, 0.3])  # fmt: skip
    (quiet,) = without_disturbed([one])
    assert (quiet["ours"], quiet["theirs"], quiet["ratio"]) == (15.0, 5.0, 3.0)
    assert "| 10 / 15 / 20 | a | 5 / 5 / 5 | 3 |" in table([quiet])[2]
    assert not is_disturbed(quiet)
    (lost,) = without_disturbed([{**one, "theirs_others": [0.2, 0.3]}])
    assert (lost["ours"], lost["theirs"], lost["ratio"]) == (15.0, None, None)
    assert "| 10 / 15 / 20 | a | disturbed |  |" in table([lost])[2]
    assert is_disturbed(lost)
    (kept,) = without_disturbed([row("padding", "tiny", [0.25], unit="")])
    assert (kept["ours"], is_disturbed(kept)) == (0.25, False)


def test_the_machine_is_described_by_its_instruction_sets(tmp_path):
    (tmp_path / "cpuinfo").write_text("model name\t: CPU X\nflags\t\t: sse avx2 avx512_vnni avx512f\n\nmodel name: Y\n")
    described = describe_machine(tmp_path / "cpuinfo")
    assert "- Machine: CPU X, " in described
    assert "; instruction sets: AVX2, AVX-512, AVX512-VNNI; " in described


def test_processes_that_were_started_are_not_others():
    """The time of a child and of its child, which each compute for 0.2 s and do not exit, is counted."""
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint('done', flush=True)\n"
    both = (
        "import subprocess, sys\n"
        f"own = subprocess.Popen([sys.executable, '-c', {burn + 'input()'!r}], stdin=subprocess.PIPE)\n{burn}input()"
    )
    before = child._own_seconds()
    with subprocess.Popen(
        [sys.executable, "-c", both], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        assert [started.stdout.readline() for _ in range(2)] == ["done\n", "done\n"]
        found = child._own_seconds() - before
        started.communicate("\n")
    assert found > 0.35


# === Comparison of the quality of several hparams sets: which runs are trained or reused, tables, failures ===
OURS = {
    "h1": "h1", "h2": "h4", "h8": "h16", "h16": "h32", "k8": "k16", "k16": "k32", "l1": "l2", "l3": "l4", "l6": "l8",
    "d64": "hs256", "d256": "hs1024", "ff128": "ff1024", "ff512": "ff4096", "dropout_0": "dr0", "dropout_0.4": "dr2",
    "smoothing_0": "ls0", "smoothing_0.2": "ls2", "learned_positions": "learned_positions",
}  # fmt: skip
"""Rows of our small version of Table 3 -> suffixes of the registered sets of the paper's rows that they represent."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder of Multi30k's files, with words of two letters."""
    folder = tmp_path_factory.mktemp("corpus")
    words = [one + other for one in "bdfgk" for other in "aeiou"]
    lines = [" ".join(words[(7 * line + 3 * place) % 25] for place in range(8)) for line in range(40)]
    for stem in ("train", "val", "test_2016_flickr"):
        for side in ("en", "de"):
            (folder / f"{stem}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def quality(corpus, tmp_path):
    """Returns a function that compares hparams sets of `table3`; its `commands` are those that it has run.

    The trainer leaves a finished run of 500 updates, the decoder cuts the ends of the references.
    """
    words_left_out = {"base-seed1": 0, "h1-seed1": 4, "base-seed2": 2, "h1-seed2": 4, "h8-seed1": 0}
    commands = []

    class FakeRuns(Runs):
        def prepare(self, corpus, folder, vocab_size):
            return folder

        def command(self, run, cores, name, *flags):
            commands.append((run.name, name))
            if run.name == "h2-seed1":
                raise SideError("out of memory")
            if name == "t2t-trainer":
                shutil.copytree(ROOT / "tests/golden/runs/0.1.0/run", run, dirs_exist_ok=True)
            else:
                (target,) = (flag.partition("=")[2] for flag in flags if flag.startswith("--decode_to_file="))
                lines = [line[: len(line) - words_left_out[run.name]] for line in self.references]
                Path(target).write_text("".join(f"{line}\n" for line in lines))

    def compare(only, *flags):
        commands.clear()
        given = [f"--folder={tmp_path}", f"--data={corpus}", "--group=table3", "--train_steps=500", f"--only={only}"]
        return compare_quality([*given, *flags], FakeRuns)

    compare.commands = commands
    return compare


def test_every_seed_is_trained_once_and_compared_with_the_first_set(quality, tmp_path, capsys):
    files = [f"--json={tmp_path / 'table.json'}", f"--plot={tmp_path / 'differences.svg'}"]
    assert quality("base,h1", "--seeds=1,2", "--parallel=2", *files) == 0
    ours = [(run, name) for run in ("base-seed1", "base-seed2", "h1-seed1", "h1-seed2")
            for name in ("t2t-decoder", "t2t-trainer")]  # fmt: skip
    assert sorted(quality.commands) == ours
    base, h1 = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert base["of_seeds"][0] == pytest.approx(100)
    assert base["p"] is None
    assert base["bleu"] == pytest.approx(sum(base["of_seeds"]) / 2)
    assert base["deviation"] == pytest.approx((base["of_seeds"][0] - base["of_seeds"][1]) / 2**0.5)
    assert h1["of_seeds"][0] == h1["of_seeds"][1] < base["of_seeds"][1]
    assert (h1["deviation"], h1["changes"], h1["paper"]) == (0, "num_heads=1", [5.29, 24.9])
    assert h1["p"] < 0.01
    assert "h1" in (tmp_path / "differences.svg").read_text()
    out = capsys.readouterr().out
    assert re.search(r"\| h1, `num_heads=1` \| [\d,]+ \| [\d.]+ \| [\d.]+ \| 0.00 \| .* \| 5.29 \| 24.9 \|\n", out)
    assert quality("base,h1", "--seeds=1,2", "--parallel=2") == 0
    assert quality.commands == [], "all of them are finished"
    assert quality("base", "--hparams=num_heads=1") == 0
    assert quality.commands, "t2t-trainer is asked, which refuses it"


def test_a_run_that_fails_is_named_and_stops_no_other(quality, tmp_path, capsys):
    assert quality("base,h1,h2") == 1
    out, err = capsys.readouterr()
    assert "h2-seed1: out of memory\n" in err
    assert "| h2, `num_heads=2` |  |  |  |  | failed |  | 5 | 25.5 |\n" in out
    assert "| h1, " in out
    assert quality("base", "--train_steps=400") == 1
    assert re.search(r"base-seed1: .* 500 .*--folder\n", capsys.readouterr().err)


def test_without_a_baseline_there_is_a_table_and_no_plot(quality, tmp_path, capsys):
    assert quality("h2,h8", f"--plot={tmp_path / 'differences.svg'}") == 1
    out, err = capsys.readouterr()
    assert "| h8, " in out
    assert "h2" in err.splitlines()[-1]
    assert not (tmp_path / "differences.svg").exists()


def test_rows_of_table_3_are_beside_the_figures_of_the_paper():
    rows = {one.name: one for one in groups()["table3"]}
    assert rows.keys() - OURS.keys() == {"base"}
    assert rows["base"].paper == (4.92, 25.8)
    for name, of_paper in OURS.items():
        said = re.search(
            r"Paper: perplexity (\d+\.\d+), BLEU (\d+\.\d+)", HPARAMS.get(f"transformer_{of_paper}").__doc__
        )
        assert rows[name].paper == tuple(map(float, said.groups()))
        HPARAMS.get(rows[name].hparams_set)().override(rows[name].changes)


def test_models_are_all_that_translate_transformers_with_norms_before_their_layers():
    found = {one.name: one.model for one in groups()["models"]}
    assert next(iter(found)) == "transformer_multi30k_tiny"
    assert found["byte_net_multi30k_tiny"] == "byte_net"
    assert found["t5_multi30k_tiny"] == "transformer"
    assert found["lstm_attention_multi30k_tiny"] == "lstm_seq2seq_attention"
    changed = {one.name for one in groups()["models"] if one.changes == "norm_position=pre"}
    assert {"transformer_multi30k_tiny", "universal_transformer_multi30k_tiny"} <= changed
    assert not {"transformer_modern_multi30k_tiny", "conv_s2s_multi30k_tiny"} & changed
    for one in groups()["models"]:
        hparams = HPARAMS.get(one.hparams_set)().override(one.changes)
        assert getattr(hparams, "norm_position", "pre") == "pre"


@pytest.mark.parametrize(
    ("flag", "named"),
    [("--only=h3", "--only=h3:"), ("--seeds=1,x", "--seeds:"), ("--languages=de", "--languages:")],
)
def test_mistakes_are_said(flag, named, tmp_path, capsys):
    with contextlib.suppress(SystemExit):
        assert benchmark(["quality", f"--folder={tmp_path}", "--group=table3", flag]) == 2
    assert named in capsys.readouterr().err
