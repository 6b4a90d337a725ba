"""The flags --shard and --merge: required flags, and the suggested command for a missing part."""

import shlex

import pytest

from t2t.cli import decoder
from t2t.cli.sharding import command_of_shard


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    return "--decode_from_file=in"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--shard=0/2", "--merge"],
            "--shard and --merge are given; --shard does one shard, --merge joins those that are done, and --beam",
        ),
        (["--beam_options=--runner=DirectRunner", "--merge"], "--merge and --beam_options are given; --shard does one"),
        (
            ["--beam_options=--runner=DirectRunner", "--decode_to_file="],
            "--beam_options: parts go next to the output; name that with --decode_to_file",
        ),
        (
            ["--shard=0/2", "--engine=auto"],
            "--shard: with --engine=auto each process chooses its engine by a trial, and the parts may be of several; "
            "name one for all, --engine=tensorflow or --engine=ctranslate2",
        ),
        (
            ["--beam_options=--runner=DirectRunner", "--engine=auto"],
            "--beam_options: with --engine=auto each process chooses its engine by a trial",
        ),
        (
            ["--beam_options=--direct_num_worker=2"],
            "--beam_options='--direct_num_worker=2': there is no option --direct_num_worker; give options of",
        ),
        (["--shard=0/2", "--decode_to_file="], "--shard: parts go next to the output; name that with --decode_to_file"),
        (["--merge", "--decode_to_file="], "--merge: parts go next to the output; name that with --decode_to_file"),
        (["--shard=2"], "shard '2': it is written K/N; give e.g. 0/100 for the first of a hundred"),
        (["--shard=2/2"], "shard 2/2: K/N is shard K of N, from 0/N to N-1/N, and N at most 99,999; give e.g. 0/100"),
        (["--shard=0/2", "--decode_to_file=-"], "-: parts go next to the output, which is no file; name one"),
        (
            ["--merge"],
            "out: there are no parts of it; make them first, e.g. that of the first of a hundred shards with:",
        ),
    ],
)
def test_mistakes(source, flags, message, capsys, tmp_path):
    target = [] if any("decode_to_file" in flag for flag in flags) else ["--decode_to_file=out"]
    assert decoder.main(["t2t-decoder", source, *target, *flags]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"t2t-decoder: error: {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--decode_from_file=-"],
            "standard input: shards are of a file, and this can be read only once; save it as a f",
        ),
        (
            ["--decode_split=dev"],
            "--shard: only files are divided; give --shard with --decode_from_file, --score_file or",
        ),
        (["--decode_from_file=in", "--attention_to_html=page"], "--decode_to_file: --attention_to_html draws the best"),
    ],
)
def test_what_is_no_file_has_no_shards(source, flags, message, capsys):
    assert decoder.main(["t2t-decoder", *flags, "--decode_to_file=out", "--shard=0/2"]) == 2
    assert f"error: {message}" in capsys.readouterr().err


def test_a_page_has_no_shards(source, capsys):
    assert decoder.main(["t2t-decoder", source, "--attention_to_html=page", "--shard=0/2"]) == 2
    assert "error: --shard: --attention_to_html makes one page; give --shard with" in capsys.readouterr().err


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
