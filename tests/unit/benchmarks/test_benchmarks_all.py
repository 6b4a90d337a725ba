"""`python -m benchmarks all`: the page of all tables, which parts are rerun, and turns disturbed by other processes."""

import argparse
import importlib
import json
import subprocess
import sys

import pytest

from benchmarks.all import main
from benchmarks.harness import child
from benchmarks.harness.machine import describe_machine
from benchmarks.harness.parts import PARTS, Part
from benchmarks.harness.rows import is_disturbed, row, table, without_disturbed
from t2t.errors import UnknownNameError
from tests.errors import refused

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


def test_the_best_variants_stand_first(run, page):
    run(parts=[Part(name="one", benchmark="speed.best")])
    line = "| speed.best | tiny | t2t | s | 7 / 7 / 7 |  |  |  |\n"
    assert page().count(line) == 2
    assert page().index("## The best variants of each program") < page().index(line) < page().index("## one")


def test_another_machine_is_another_result(run, tmp_path):
    run("--only=one")
    path = tmp_path / "results" / "one.json"
    path.write_text(json.dumps({**(was := json.loads(path.read_text())), "machine": {**was["machine"], "cores": 1000}}))
    assert run("--only=one")[1] == ["first"]
    assert run("--only=one")[1] == []


def test_mistakes(run):
    with refused("--only=tow", "two?", "three", by=UnknownNameError):
        run("--only=tow")
    with refused("--data=/nowhere"):
        run("--data=/nowhere")


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


def test_only_undisturbed_turns_count():
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


def test_a_share_that_no_process_changes_is_never_disturbed():
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
