"""Any damage to a file of a run or of data is detected before the file is used."""

import shutil

import pytest

from t2t.cli import decoder, trainer
from tests.errors import refused
from tests.faults.damage import rows
from tests.faults.damaged import READERS, kind_of
from tests.in_process import call


@pytest.mark.slow  # some thousand damages; the unit tests of checkpoints, data and records damage one of each kind
def test_every_damage_to_every_file_is_noticed(tmp_path):
    found = rows(tmp_path)
    assert [failure for row in found for failure in row.failures] == []
    assert all(row.injected == row.survived > 0 for row in found)
    assert {row.fault.partition(": ")[2] for row in found} == set(READERS)


def test_a_new_kind_of_file_must_say_who_reads_it(tiny_run):
    """All files of a trained run and its data have readers."""
    for folder, name in ((tiny_run.output_dir, "run"), (tiny_run.data_dir, "data")):
        for file in folder.rglob("*"):
            if file.is_file():
                kind_of(f"{name}/{file.relative_to(folder).as_posix()}")
    with refused("run/news.json", "READERS", by=LookupError):
        kind_of("run/news.json")


@pytest.mark.slow  # that training from the checkpoint before a damaged one leads to the same weights
def test_commands_go_on_from_the_checkpoint_before_a_damaged_one(tiny_run, tmp_path):
    run = shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    lost = run / "checkpoints/step-00000040/model.safetensors"
    whole = lost.read_bytes()
    lost.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
    (tmp_path / "lines").write_text("1 2 3\n4 5 6 7\n")
    warning = f"checkpoint {lost.parent} is damaged: {lost.name} "
    for name in ("latest", "20"):
        files = {"decode_from_file": tmp_path / "lines", "decode_to_file": tmp_path / name}
        printed = call(decoder, output_dir=run, checkpoint=name, **files).err
        assert (warning in printed) == (name == "latest")
    assert (tmp_path / "latest").read_bytes() == (tmp_path / "20").read_bytes()
    assert warning in call(trainer, *tiny_run.train_flags, output_dir=run, train_steps=40).err
    assert lost.read_bytes() == whole
