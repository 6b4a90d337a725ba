"""Flags of searches and of shards: the hparams that they change, the command of a missing part."""

import shlex

import pytest

from t2t.cli import decoder, trainer
from t2t.cli.decoding_flags import command_of_shard, search_overrides, trained_overrides
from t2t.hparams.transformer import transformer_base
from t2t.runs.loading import override_decoding
from tests.errors import refused


def parsed(module, *flags):
    values = module.build_flags()
    values(["t2t-x", *flags])
    return values


def test_flags_change_the_hparams_that_they_name_if_they_are_given():
    assert search_overrides(parsed(decoder)) == search_overrides(parsed(trainer)) == ""
    sampling = "--sampling_temperature=0.5 --sampling_top_k=3 --sampling_top_p=0.25"
    limits = "--decode_extra_length=7 --decode_batch_size=99"
    values = parsed(decoder, "--decode_method=sample", *limits.split(), *sampling.split())
    decode = override_decoding(transformer_base(), search_overrides(values))
    assert (decode.decode_method, decode.extra_length, decode.decode_batch_size) == ("sample", 7, 99)
    assert (decode.sampling_temperature, decode.sampling_top_k, decode.sampling_top_p) == (0.5, 3, 0.25)
    values = parsed(decoder, "--decode_beam_size=8", "--decode_alpha=1", "--decode_length_penalty=power")
    decode = override_decoding(transformer_base(), search_overrides(values))
    assert (decode.decode_method, decode.beam_size, decode.alpha, decode.length_penalty) == ("beam", 8, 1.0, "power")
    values = parsed(trainer, "--decode_beam_size=8", "--decode_alpha=0", "--decode_extra_length=0")
    assert search_overrides(values) == "beam_size=8,alpha=0.0,extra_length=0"


def test_what_another_search_does_not_read_falls_back():
    trained = transformer_base().replace(beam_size=8, alpha=1.0)
    decode = override_decoding(trained, "decode_method=sample")
    assert (decode.decode_method, decode.beam_size, decode.alpha) == ("sample", 4, 0.6)
    assert override_decoding(trained, "").beam_size == 8


@pytest.mark.parametrize(
    ("asked", "about"),
    [
        ("decode_method=sample,beam_size=3", "beam_size=3: decode_method=sample"),
        ("sampling_top_k=3", "sampling_top_k=3: decode_method=beam"),
        ("beam_size=0", "beam_size=0: 1"),
        ("hidden_size=8", "hidden_size=8: 512,"),
    ],
)
def test_what_a_search_does_not_read_and_what_is_trained_cannot_be_changed(asked, about):
    with refused(*about.split()):
        override_decoding(transformer_base(), asked)


@pytest.mark.parametrize("decided", [{"precision": "mixed_bfloat16", "xla": "on", "fixed_shapes": 16}, {}])
def test_what_was_left_to_the_run_is_no_other_run(decided):
    """Without decisions in their records, imported runs are in float32."""
    own = transformer_base().replace(**{"precision": "auto", "xla": "auto", **decided})
    changed = override_decoding(own, "precision=auto,xla=auto,beam_size=3")
    assert changed.difference(own) == {"beam_size": (4, 3)}
    found = decided.get("precision", "float32")
    with refused("precision=tensorfloat32:", found):
        override_decoding(own, "precision=tensorfloat32")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], "beam_size=3"),
        (["--hparams=train_steps=8,hidden_size=8"], "train_steps=8,hidden_size=8,beam_size=3"),
        (["--hparams=train_steps=8,hidden_size=8", "--train_steps=7"], "hidden_size=8,beam_size=3"),
        (["--hparams=train_steps=8", "--hparams=alpha=1", "--train_steps=0"], "alpha=1,beam_size=3"),
    ],
)
def test_the_flag_of_updates_stands_over_the_hparam(flags, expected):
    assert trained_overrides(parsed(trainer, *flags, "--decode_beam_size=3")) == expected
    assert trained_overrides(parsed(decoder, "--hparams=train_steps=8", "--train_steps=7")) == "train_steps=8"


# === The flags --shard and --merge: the suggested command for a missing part ===
@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("a\n")
    return "--decode_from_file=in"


def test_the_command_of_a_missing_part_has_the_flags_of_merging_each_named_once(source, capsys):
    given = ["--decode_to_file=the out", "--output_dir=run", "--hparams_set=a", "--alignments", "--n_best=2"]
    assert decoder.main(["t2t-decoder", source, *given, "--merge"]) == 2
    command = capsys.readouterr().err.strip().partition(" with: ")[2]
    name, *flags = shlex.split(command)
    assert name == "t2t-decoder"
    assert flags[-1] == "--shard=0/100"
    assert sorted(flags[:-1]) == sorted([source, *given])
    values = decoder.build_flags()
    values(["t2t-decoder", "--checkpoint_path=best", "--decode_from_file=in", "--noalignments"])
    found = shlex.split(command_of_shard(values, "3/4"))
    assert sorted(found[1:]) == ["--checkpoint=best", "--decode_from_file=in", "--noalignments", "--shard=3/4"]
