"""`t2t-avg-all`: the mean of checkpoints, as a checkpoint that decodes."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from t2t.cli import avg_all, decoder


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy that may be written to."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def weights(run, name):
    return load_file(run / "checkpoints" / name / "model.safetensors")


def test_the_mean_of_named_steps_by_name(run, capsys):
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--checkpoints=20,40"]) == 0
    assert capsys.readouterr().out == f"averaged steps 20, 40 into {run}/checkpoints/averaged\n"
    first, last, mean = (weights(run, name) for name in ("step-00000020", "step-00000040", "averaged"))
    assert mean.keys() == first.keys() == last.keys()
    for name, array in mean.items():
        np.testing.assert_allclose(array, (first[name].astype(float) + last[name]) / 2, rtol=1e-6, atol=1e-9)
        assert array.dtype == first[name].dtype
    assert any((first[name] != last[name]).any() for name in first)


def test_the_last_n(run, capsys):
    assert avg_all.main(["t2t-avg-all", f"--model_dir={run}", "--n=1"]) == 0
    assert "averaged steps 40 into" in capsys.readouterr().out
    last, mean = weights(run, "step-00000040"), weights(run, "averaged")
    assert all((mean[name] == last[name]).all() for name in last)


def test_the_result_decodes_and_is_told_from_others(run, tmp_path, capsys):
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--n=2", "--name=averaged-2"]) == 0
    (tmp_path / "in").write_text("1 2 3\n")
    flags = [f"--output_dir={run}", f"--decode_from_file={tmp_path / 'in'}", f"--decode_to_file={tmp_path / 'out'}"]
    assert decoder.main(["t2t-decoder", *flags, "--checkpoint=averaged-2"]) == 0
    assert "/checkpoints/averaged-2 (40 updates)" in capsys.readouterr().err
    assert (tmp_path / "out").read_text().count("\n") == 1
    assert decoder.main(["t2t-decoder", *flags, "--checkpoint=averaged"]) == 2
    err = capsys.readouterr().err
    assert "checkpoint 'averaged': there is none; " in err
    assert "holds steps 20, 40, averaged-2; give latest, best, averaged, a step, or the path" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "average the last 5 checkpoints: "),
        (["--n=3"], "holds 2 (20, 40); ask for fewer, or train with a larger --keep_checkpoint_max"),
        (["--n=0"], "average the last 0 checkpoints: give a number of at least 1"),
        (["--checkpoints=20,30"], "checkpoint '30': there is none"),
        (
            ["--checkpoints=20,best"],
            "--checkpoints: 'best' is no step; give numbers of updates, e.g. --checkpoints=100,200",
        ),
        (["--checkpoints=20,20"], "--checkpoints=20,20: a step stands in it twice; name each once"),
        (["--n=2", "--name=mine"], "checkpoint name 'mine': use averaged or averaged-..."),
    ],
)
def test_mistakes_change_nothing(run, flags, message, capsys):
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", *flags]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before
