"""Flags and values of Tensor2Tensor: read by our names, accepted with one line, or refused with one line."""

import logging

import pytest

from t2t.cli import datagen, decoder, exporter, trainer
from t2t.cli import eval as eval_command
from t2t.cli.common import parse
from t2t.cli.decoding_flags import decoding_devices
from t2t.cli.schedules import REFUSED, SCHEDULES, SYNONYMS, check_schedule
from t2t.cli.search_flags import search_overrides, trained_overrides
from t2t.cli.tensor2tensor import RUN_FLAGS
from t2t.errors import UserError
from t2t.runs.names import get_hparams
from t2t.runs.run_checks import override_decoding

OF_RUNS = (trainer, decoder, eval_command, exporter)

every_command = pytest.mark.parametrize("command", OF_RUNS, ids=lambda command: command.__name__)


def parsed(command, *arguments):
    return parse(command.build_flags(), ["t2t-command", *arguments], "")


# === Flags without an effect ===


@every_command
def test_each_flag_is_known_with_its_neutral_value_and_says_nothing(command, caplog):
    arguments = [f"--{name}={flag.neutral}" for name, flag in RUN_FLAGS.items() if flag.neutral]
    own = command.build_flags()
    arguments = [one for one in arguments if hasattr(own[one[2:].partition("=")[0]], "unused")]
    assert len(arguments) > 40
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(command, *arguments)
    assert not caplog.messages


@every_command
def test_another_value_has_one_line_that_says_what_to_do(command, caplog):
    flags = ["--use_tpu", "--ps_replicas=4", "--sync", "--master", "grpc://a:1", "--worker_gpu_memory_fraction=0.5"]
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(command, *flags)
    by_flag = {message.split()[0]: message for message in caplog.messages}
    assert len(by_flag) == len(caplog.messages) == 5
    assert by_flag["--use_tpu"] == (
        "--use_tpu has no effect; TPUs are not used; GPUs are used with --worker_gpu, several machines with "
        "--worker_hosts and --worker_index"
    )
    assert "--ps_replicas=4 has no effect; there are no parameter servers" in by_flag["--ps_replicas=4"]


def test_the_line_can_be_written_whatever_the_value_is(caplog):
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(trainer, "--ps_job=a\n\udce4b")
    assert caplog.messages[0].startswith("--ps_job=a \ufffdb has no effect; there are no parameter servers")


@pytest.mark.parametrize(
    ("command", "flag", "said"),
    [
        (trainer, "--hparams_range=transformer_base_range", "t2t-tune searches a range, with the same flags and"),
        (trainer, "--autotune", "t2t-tune searches a range"),
        (trainer, "--worker_replicas=2", "several machines train together with --worker_hosts and --worker_index"),
        (trainer, "--eval_use_test_set", "evaluate the test split with t2t-eval --split=test"),
        (decoder, "--decode_shards=4", "part K of N is decoded by t2t-decoder --shard=K/N"),
        (exporter, "--export_as_tfhub", "t2t-exporter makes a SavedModel"),
        (datagen, "--max_cases=5", "all examples are generated"),
        (datagen, "--task_id=3", "task K of N makes its shards with --shard=K/N"),
    ],
)
def test_what_would_change_the_result_is_refused(command, flag, said):
    with pytest.raises(UserError) as caught:
        parsed(command, flag)
    assert str(caught.value).startswith(f"{flag}: not supported; {said}")
    assert str(caught.value).endswith("; leave it out")


def test_a_flag_without_an_effect_changes_nothing():
    values = parsed(exporter, "--decode_batch_size=32", "--worker_gpu=4", "--decode_beam_size=3")
    assert search_overrides(values) == "beam_size=3"
    assert decoding_devices(values) is None


# === Schedules ===


def schedule(name):
    values = parsed(trainer, f"--schedule={name}")
    check_schedule(values)
    return values.schedule


def test_schedules_mean_ours_or_are_refused():
    assert [schedule(name) for name in SCHEDULES] == list(SCHEDULES)
    assert {schedule(name) for name in SYNONYMS} == {"continuous_train_and_eval"}
    assert schedule("local_run") == schedule("train_and_evaluate") == "continuous_train_and_eval"
    for name in REFUSED:
        with pytest.raises(UserError, match=rf"^--schedule={name}: not supported; "):
            schedule(name)
    with pytest.raises(UserError, match="there are no parameter servers; run t2t-trainer with --worker_hosts on each"):
        schedule("run_std_server")
    with pytest.raises(UserError, match="--schedule=often does not exist; choose one of continuous_train_and_eval, tr"):
        schedule("often")


# === --decode_hparams ===


def test_decode_hparams_are_flags_of_the_decoder():
    text = "beam_size=7,alpha=0.3,extra_length=12,max_input_size=99,decode_to_file=a,shards=4,shard_id=2"
    values = parsed(decoder, f"--decode_hparams={text}")
    named = ("decode_beam_size", "decode_alpha", "decode_extra_length", "max_input_length", "decode_to_file", "shard")
    assert [values[name].value for name in named] == [7, 0.3, 12, 99, "a", "2/4"]
    assert values.n_best == 1
    both = parsed(decoder, "--decode_hparams=beam_size=4", "--decode_beam_size=4")
    assert both.decode_beam_size == 4


def test_beams_are_returned_as_n_best():
    values = parsed(decoder, "--decode_hparams=return_beams=True,beam_size=3")
    assert (values.n_best, values.decode_beam_size) == (3, 3)
    values = parsed(decoder, "--decode_hparams=return_beams=True")
    assert (values.n_best, values.decode_beam_size) == (4, 4), "Tensor2Tensor's default"


def test_decode_hparams_without_an_effect_have_one_line(caplog):
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(decoder, "--decode_hparams=batch_size=32,log_results=False,num_samples=-1,beam_size=2")
    assert caplog.messages == [
        "--decode_hparams: batch_size, log_results: no effect; batches are cut by --decode_batch_size ids"
    ]


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        (decoder, ["beam=4"], "--decode_hparams=beam=4: there is no beam; names are beam_size, alpha, extra_length, "),
        (decoder, ["coverage_penalty=0.2"], "no coverage_penalty in it; use the flag --decode_coverage_penalty"),
        (decoder, ["min_output_length=2"], "no min_output_length in it; use the flag --min_output_length"),
        (trainer, ["coverage_penalty=0.2"], "there is no coverage_penalty; names are beam_size, "),
        (decoder, ["beam_size=four"], "beam_size"),
        (decoder, ["beam_size=0"], "--decode_hparams: beam_size=0: flag --decode_beam_size=0: "),
        (decoder, ["beam_size=4,;"], "--decode_hparams='beam_size=4,;': cannot read ';'"),
        (decoder, ["beam_size=4,beam_size=5"], "beam_size is assigned twice; keep one"),
        (decoder, ["beam_size=4", "--decode_beam_size=5"], "beam_size=4, but --decode_beam_size=5; keep one"),
        (
            decoder,
            ["alpha=2,beam_size=4", "--decode_beam_size=5", "--decode_alpha=1"],
            "alpha=2.0, but --decode_alpha=",
        ),
        (decoder, ["num_samples=5"], "--decode_hparams=num_samples=5: not supported; all examples are decoded; give a"),
        (decoder, ["force_decode_length=True"], "not supported; it has no counterpart; leave it out"),
        (decoder, ["shard_id=3"], "shard_id=3: with shards=1 there is 0 alone; give more shards"),
        (decoder, ["shards=0,shard_id=-1"], "shard_id=-1: with shards=0 there is 0 alone; give more shards"),
        (trainer, ["return_beams=True"], "return_beams: this command does not read it; decode with t2t-decoder"),
    ],
)
def test_mistakes_in_decode_hparams_are_one_line(command, arguments, said):
    first, *others = arguments
    with pytest.raises(UserError) as caught:
        parsed(command, f"--decode_hparams={first}", *others)
    assert said in str(caught.value)


def test_hparams_of_a_trained_run_join_the_search_flags():
    values = parsed(decoder, "--hparams=hidden_size=512,alpha=0.2", "--decode_hparams=beam_size=3")
    assert trained_overrides(values) == "hidden_size=512,alpha=0.2,beam_size=3"
    own = get_hparams("transformer_base")
    assert override_decoding(own, trained_overrides(values)).beam_size == 3
    other = parsed(decoder, "--hparams=hidden_size=8")
    with pytest.raises(
        UserError, match="hparam hidden_size=8: the run has 512, and only hparams of decoding can still"
    ):
        override_decoding(own, trained_overrides(other))


# === --decode_reference ===


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--decode_reference: it scores the file that --decode_from_file writes; name two files"),
        (["--decode_from_file=-"], "it scores the file that --decode_from_file writes"),
        (["--decode_from_file=a", "--decode_to_file=-"], "it scores the file that --decode_from_file writes"),
        (["--decode_from_file=a", "--n_best=2"], "--decode_reference: it scores one output for each line; leave out"),
        (["--decode_from_file=a", "--output_format=jsonl"], "it scores one output for each line"),
        (["--decode_from_file=a", "--decode_to_file=b", "--merge"], "--merge only joins files; leave it out, and"),
        (["--decode_from_file=a"], "there is no such file"),
    ],
)
def test_a_reference_needs_a_file_of_outputs(flags, said, tmp_path, capsys):
    assert decoder.main(["t2t-decoder", f"--decode_reference={tmp_path}/none", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_reference_has_as_many_lines_as_the_inputs_before_anything_is_decoded(tmp_path, capsys):
    (tmp_path / "in").write_text("a\n\nb")
    (tmp_path / "reference").write_text("a\nb\n")
    files = [f"--decode_from_file={tmp_path}/in", f"--decode_reference={tmp_path}/reference"]
    assert decoder.main(["t2t-decoder", "--output_dir=/nowhere", *files]) == 2
    assert f"{tmp_path}/in has 3 lines and {tmp_path}/reference has 2" in capsys.readouterr().err
    (tmp_path / "reference").write_text("a\nb\nc\n")
    assert decoder.main(["t2t-decoder", "--output_dir=/nowhere", *files]) == 2
    assert "no run in /nowhere" in capsys.readouterr().err
