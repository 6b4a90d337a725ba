"""`t2t-avg-all`: the mean of checkpoints, as a checkpoint that decodes."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from t2t.checkpoints.best import Best
from t2t.checkpoints.store import CheckpointStore
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


@pytest.mark.slow
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


@pytest.mark.parametrize("flags", [[], ["--n=20"]])
def test_fewer_than_asked_are_averaged_with_a_warning(run, flags, capsys):
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", *flags]) == 0
    said = capsys.readouterr()
    assert said.out == f"averaged steps 20, 40 into {run}/checkpoints/averaged\n"
    asked = 20 if flags else 5
    assert f"warning: average the last {asked} checkpoints: {run}/checkpoints holds 2 (20, 40); averaging" in said.err


def test_a_single_checkpoint_has_no_mean(run, capsys):
    shutil.rmtree(run / "checkpoints/step-00000020")
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--n=20"]) == 2
    assert "holds 1 (40), and a mean takes at least 2; decode with --checkpoint=40, or train" in capsys.readouterr().err
    assert not (run / "checkpoints/averaged").exists()


def test_the_best_ones(run, capsys):
    store = CheckpointStore(run / "checkpoints")
    store.rank_best([Best(40, "loss", 1.0), Best(20, "loss", 2.0)])
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--checkpoints=best:2"]) == 0
    assert capsys.readouterr().out == f"averaged steps 40, 20 into {run}/checkpoints/averaged\n"
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--checkpoints=best:1,40"]) == 2
    assert "checkpoints 40 and 40 are the same" in capsys.readouterr().err


def test_named_checkpoints_are_averaged_with_steps(run, capsys):
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--n=2"]) == 0
    assert (
        avg_all.main(["t2t-avg-all", f"--output_dir={run}", "--checkpoints=averaged,latest", "--name=averaged-2"]) == 0
    )
    assert "averaged checkpoints averaged, latest into" in capsys.readouterr().out
    first, last, mean = (weights(run, name) for name in ("step-00000020", "step-00000040", "averaged-2"))
    for name, array in mean.items():
        np.testing.assert_allclose(array, first[name].astype(float) / 4 + last[name] * 0.75, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--n=0"], "--n=0: it is the number of checkpoints to average; give at least 1"),
        (["--checkpoints=20,30"], "checkpoint '30': there is none"),
        (
            ["--checkpoints=20,/tmp"],
            "--checkpoints: '/tmp' is no checkpoint of a run; give steps, best, latest or names of averages, e.g.",
        ),
        (["--checkpoints=20,20"], "checkpoints 20 and 20 are the same, "),
        (["--checkpoints=40,20,latest"], "checkpoints 40 and latest are the same, "),
        (["--n=2", "--name=mine"], "checkpoint name 'mine': use averaged or averaged-..."),
    ],
)
def test_mistakes_change_nothing(run, flags, message, capsys):
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert avg_all.main(["t2t-avg-all", f"--output_dir={run}", *flags]) == 2
    assert message in capsys.readouterr().err
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before
