"""`python -m benchmarks gpu` runs to the end on a CPU with toy sizes."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.gpu.model import flops
from benchmarks.gpu.sizes import SIZES

SMALL = ("--steps=2", "--turns=1", "--batch_size=64", "--length=8", "--vocab_size=100")


@pytest.mark.slow  # that both steps are measured, which are compiled
def test_it_runs_without_a_gpu(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert main(["gpu", "--config=tiny", "--peers=", *SMALL, f"--json={tmp_path / 'rows.json'}"]) == 0
    assert "| training on a GPU | tiny, xla=on |" in capsys.readouterr().out
    rows = json.loads((tmp_path / "rows.json").read_text())
    for config, rate, share in zip(("tiny, xla=on", "tiny, xla=off"), rows[::2], rows[1::2], strict=True):
        assert rate["ours"] > 0
        assert share["ours"] == pytest.approx(rate["ours"] / 64 * rate["flops"] / rate["matrix_flops"])
        assert (rate["work"], rate["config"], rate["peer"], rate["theirs"], rate["ratio"]) == (
            "training on a GPU", config, None, None, None,
        )  # fmt: skip
    assert [row["job"]["xla"] for row in rows] == [True, True, False, False]


def test_a_backend_that_is_not_there_is_named_with_the_reason(capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "abacus")
    assert main(["gpu", "--config=tiny", *SMALL]) == 1
    assert "error: benchmarks.gpu.abacus_step ended with status 1: " in capsys.readouterr().err


def test_a_size_that_does_not_exist_is_an_error(capsys):
    assert main(["gpu", "--config=bsae"]) == 2
    assert "no 'bsae'; did you mean base?" in capsys.readouterr().err


def test_operations_of_the_paper_s_base_model():
    """6 + 6 layers of d 512, 37,000 pieces: 3.8e8 operations per pair of tokens, 9.5e17 in docs/numerics.md."""
    job = {"config": SIZES["base"], "rows": 800, "length": 32, "vocab_size": 37_000}
    assert flops(job) * 100_000 * 25_000 / (800 * 32) == pytest.approx(9.5e17, rel=0.02)
