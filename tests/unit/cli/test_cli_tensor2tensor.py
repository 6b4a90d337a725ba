"""Flags and values of Tensor2Tensor: read by our names, or accepted with one line; test_cli_mistakes has the others."""

import logging

import pytest

from t2t.cli import decoder, exporter, trainer
from t2t.cli import eval as eval_command
from t2t.cli.common import parse
from t2t.cli.decoding_flags import decoding_devices
from t2t.cli.schedules import REFUSED, SCHEDULES, SYNONYMS, check_schedule
from t2t.cli.search_flags import search_overrides, trained_overrides
from t2t.cli.tensor2tensor import RUN_FLAGS
from t2t.runs.names import get_hparams
from t2t.runs.run_checks import override_decoding
from tests.errors import refused

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
    assert all(name in by_flag["--use_tpu"] for name in ("--worker_gpu", "--worker_hosts", "--worker_index"))
    assert by_flag.keys() > {"--ps_replicas=4", "--sync"}


def test_the_line_can_be_written_whatever_the_value_is(caplog):
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(trainer, "--ps_job=a\n\udce4b")
    assert caplog.messages[0].startswith("--ps_job=a \ufffdb ")


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
        with refused(f"--schedule={name}:"):
            schedule(name)
    with refused("t2t-trainer", "--worker_hosts"):
        schedule("run_std_server")
    with refused("--schedule=often", *SCHEDULES):
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
    (line,) = caplog.messages
    assert line.startswith("--decode_hparams: batch_size, log_results: ")
    assert "--decode_batch_size" in line


def test_hparams_of_a_trained_run_join_the_search_flags():
    values = parsed(decoder, "--hparams=hidden_size=512,alpha=0.2", "--decode_hparams=beam_size=3")
    assert trained_overrides(values) == "hidden_size=512,alpha=0.2,beam_size=3"
    own = get_hparams("transformer_base")
    assert override_decoding(own, trained_overrides(values)).beam_size == 3
    other = parsed(decoder, "--hparams=hidden_size=8")
    with refused("hidden_size=8:", "512,"):
        override_decoding(own, trained_overrides(other))
