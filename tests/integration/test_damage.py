"""Any damage to a file of a run or of data is detected before the file is used."""

import shutil

import pytest

from t2t.cli import decoder, trainer
from tests.faults.damage import rows
from tests.faults.damaged import READERS, kind_of


@pytest.mark.slow
def test_every_damage_to_every_file_is_noticed(tmp_path):
    found = rows(tmp_path)
    assert [failure for row in found for failure in row.failures] == []
    assert all(row.injected == row.survived > 0 for row in found)
    assert {row.fault.partition(": ")[2] for row in found} == set(READERS)


def test_a_new_kind_of_file_must_say_who_reads_it(tiny_run):
    """All files of a trained run and its data have readers."""
    for folder, place in ((tiny_run.output_dir, "run"), (tiny_run.data_dir, "data")):
        for file in folder.rglob("*"):
            if file.is_file():
                kind_of(f"{place}/{file.relative_to(folder).as_posix()}")
    with pytest.raises(LookupError, match=r"run/news.json: a new kind of file; say in READERS who reads it"):
        kind_of("run/news.json")


@pytest.mark.slow
def test_commands_go_on_from_the_checkpoint_before_a_damaged_one(tiny_run, tmp_path, capsys):
    """Decoding uses the earlier checkpoint; training from it leads to the same weights as without damage."""
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    lost, weights = run / "checkpoints/step-00000040", "model.safetensors"
    whole = (lost / weights).read_bytes()
    (lost / weights).write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    (tmp_path / "lines").write_text("1 2 3\n4 5 6 7\n")
    warning = f"checkpoint {lost} is damaged: {weights} is not what was written (sha256 "
    for name in ("latest", "20"):
        flags = [f"--output_dir={run}", f"--decode_from_file={tmp_path}/lines", f"--decode_to_file={tmp_path}/{name}"]
        assert decoder.main(["t2t-decoder", *flags, f"--checkpoint={name}"]) == 0
        assert (warning in capsys.readouterr().err) == (name == "latest")
    assert (tmp_path / "latest").read_bytes() == (tmp_path / "20").read_bytes()
    assert trainer.main(["t2t-trainer", *tiny_run.train_flags, f"--output_dir={run}", "--train_steps=40"]) == 0
    assert warning in capsys.readouterr().err
    assert (lost / weights).read_bytes() == whole
