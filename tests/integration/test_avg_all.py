"""`t2t-avg-all`: the mean of checkpoints, as a checkpoint that decodes."""

import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from t2t.checkpoints.layout import Best
from t2t.checkpoints.store import CheckpointStore
from t2t.cli import avg_all
from tests.in_process import call, refuses


@pytest.fixture
def run(tiny_run, tmp_path):
    """A copy that may be written to."""
    return shutil.copytree(tiny_run.output_dir, tmp_path / "run")


def check_mean(run, shares, name="averaged"):
    """Checks the weights of an average of the steps 20 and 40."""
    first, last, mean = (
        load_file(run / "checkpoints" / one / "model.safetensors") for one in ("step-00000020", "step-00000040", name)
    )
    assert mean.keys() == first.keys() == last.keys()
    for path, array in mean.items():
        expected = first[path].astype(float) * shares[0] + last[path].astype(float) * shares[1]
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-7)
        assert array.dtype == first[path].dtype
    assert any((first[path] != last[path]).any() for path in first)


@pytest.mark.parametrize(
    ("flags", "steps", "shares"), [({"checkpoints": "20,40"}, "20, 40", (0.5, 0.5)), ({"n": 1}, "40", (0, 1))]
)
def test_the_mean_of_named_steps_or_of_the_last(run, flags, steps, shares):
    assert call(avg_all, output_dir=run, **flags).out == f"averaged steps {steps} into {run}/checkpoints/averaged\n"
    check_mean(run, shares)


@pytest.mark.parametrize(("flags", "asked"), [([], 5), (["--n=20"], 20)])
def test_fewer_than_asked_are_averaged_with_a_warning_but_not_one(run, flags, asked):
    printed = call(avg_all, *flags, output_dir=run)
    assert printed.out == f"averaged steps 20, 40 into {run}/checkpoints/averaged\n"
    (warning,) = [line for line in printed.err.splitlines() if line.startswith("warning: ")]
    assert f" {asked} " in warning
    assert "(20, 40)" in warning
    for name in ("averaged", "step-00000020"):
        shutil.rmtree(run / "checkpoints" / name)
    refuses(avg_all, "(40), --checkpoint=40", *flags, output_dir=run)
    assert not (run / "checkpoints/averaged").exists()


def test_the_best_and_named_checkpoints_are_averaged(run):
    CheckpointStore(run / "checkpoints").rank_best([Best(40, "loss", 1.0), Best(20, "loss", 2.0)])
    printed = call(avg_all, output_dir=run, checkpoints="best:2")
    assert printed.out == f"averaged steps 40, 20 into {run}/checkpoints/averaged\n"
    call(avg_all, output_dir=run, checkpoints="averaged,latest", name="averaged-2")
    check_mean(run, (0.25, 0.75), "averaged-2")


@pytest.mark.parametrize(
    ("flags", "about"),
    [
        (["--n=0"], "--n=0"),
        (["--checkpoints=20,30"], "'30'"),
        (["--checkpoints=20,/tmp"], "--checkpoints '/tmp'"),
        (["--checkpoints=20,20"], "20"),
        (["--checkpoints=40,20,latest"], "40 latest"),
        (["--checkpoints=best:1,40"], "40"),
        (["--n=2", "--name=mine"], "'mine' averaged-"),
    ],
)
def test_mistakes_change_nothing(run, flags, about):
    CheckpointStore(run / "checkpoints").rank_best([Best(40, "loss", 1.0)])
    before = sorted(path.name for path in (run / "checkpoints").iterdir())
    refuses(avg_all, about, *flags, output_dir=run)
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == before
