"""Comparison of the quality of several hparams sets: which runs are trained or reused, tables, failures."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.harness.processes import SideError
from benchmarks.harness.quality_runs import Runs
from benchmarks.harness.variants import groups
from benchmarks.quality import main as compare_quality
from t2t.registry import HPARAMS
from tests.readme import ROOT

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


def test_models_are_all_that_translate():
    found = {one.name: one.model for one in groups()["models"]}
    assert next(iter(found)) == "transformer_multi30k_tiny"
    assert found["byte_net_multi30k_tiny"] == "byte_net"
    assert found["t5_multi30k_tiny"] == "transformer"
    assert found["lstm_attention_multi30k_tiny"] == "lstm_seq2seq_attention"


def test_transformers_have_their_norms_before_the_layers():
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
        assert main(["quality", f"--folder={tmp_path}", "--group=table3", flag]) == 2
    assert named in capsys.readouterr().err
