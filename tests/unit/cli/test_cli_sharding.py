"""The flags --shard and --merge: the suggested command for a missing part."""

import shlex

import pytest

from t2t.cli import decoder
from t2t.cli.sharding import command_of_shard


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    return "--decode_from_file=in"


def test_the_command_of_a_missing_part_has_the_flags_of_merging(source, capsys):
    given = ["--decode_to_file=the out", "--output_dir=run", "--hparams_set=a", "--alignments", "--n_best=2"]
    assert decoder.main(["t2t-decoder", source, *given, "--merge"]) == 2
    command = capsys.readouterr().err.strip().partition(" with: ")[2]
    name, *flags = shlex.split(command)
    assert name == "t2t-decoder"
    assert flags[-1] == "--shard=0/100"
    assert sorted(flags[:-1]) == sorted([source, *given])


def test_flags_that_stand_for_others_are_named_once():
    values = decoder.build_flags()
    values(["t2t-decoder", "--checkpoint_path=best", "--decode_from_file=in", "--noalignments"])
    found = shlex.split(command_of_shard(values, "3/4"))
    assert sorted(found[1:]) == ["--checkpoint=best", "--decode_from_file=in", "--noalignments", "--shard=3/4"]
