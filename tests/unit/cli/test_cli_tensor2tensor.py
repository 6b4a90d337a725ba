"""Tensor2Tensor's flags, values and commands: read by our names, or accepted with one line; see test_cli_mistakes."""

import http.server
import itertools
import json
import logging

import pytest

from t2t.backends.cluster import find_cluster
from t2t.cli import bleu, datagen, decoder, distill, exporter, insight, make_tf_configs, query_server, trainer
from t2t.cli import eval as eval_command
from t2t.cli.common import parse
from t2t.cli.decoding_flags import decoding_devices, search_overrides, trained_overrides
from t2t.cli.pairs import steps_as_they_appear
from t2t.cli.tensor2tensor import REFUSED, RUN_FLAGS, SCHEDULES, SYNONYMS, check_schedule
from t2t.runs.names import get_hparams, select_names
from t2t.runs.run_checks import override_decoding
from tests.errors import refused
from tests.in_process import call, check_refused, refusal
from tests.waiting import LIMIT_S, join_all, start_thread

OF_RUNS = (trainer, decoder, eval_command, exporter, distill)

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
def test_another_value_has_one_line_that_says_what_to_do_whatever_it_is(command, caplog):
    flags = ["--use_tpu", "--ps_replicas=4", "--sync", "--master", "grpc://a:1", "--worker_gpu_memory_fraction=0.5"]
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(command, *flags, "--ps_job=a\n\udce4b")
    by_flag = {message.split()[0]: message for message in caplog.messages}
    assert len(by_flag) == len(caplog.messages) == 6
    assert all(name in by_flag["--use_tpu"] for name in ("--worker_gpu", "--worker_hosts", "--worker_index"))
    assert by_flag.keys() > {"--ps_replicas=4", "--sync"}
    assert by_flag["--ps_job=a"].startswith("--ps_job=a \ufffdb ")


def test_a_flag_without_an_effect_changes_nothing():
    values = parsed(exporter, "--decode_batch_size=32", "--worker_gpu=4", "--decode_beam_size=3")
    assert search_overrides(values) == "beam_size=3"
    assert decoding_devices(values) is None


def test_a_switch_that_is_on_by_default_takes_no_flag_that_follows(caplog):
    with caplog.at_level(logging.WARNING, "t2t"):
        parsed(trainer, "--autotune_maximize", "--autotune_max_trials=100", "--nodaisy_chain_variables")
    assert [message.split()[0] for message in caplog.messages] == [
        "--autotune_max_trials=100",
        "--nodaisy_chain_variables",
    ]


@pytest.mark.parametrize(
    ("command", "flag", "about"),
    [
        (distill, "--teacher_dir=run", "--distilled_data_dir"),
        (distill, "--student_dir=run", "t2t-trainer --data_dir"),
        (insight, "--configuration=c.json", "t2t-insight"),
        (decoder, "--decode_hparams=multiproblem_task_id=64510", "--problem"),
        (trainer, "--hparams_range=a", "t2t-tune --study"),
    ],
)
def test_what_is_refused_names_what_to_do_instead(command, flag, about):
    check_refused(command, flag, about=f"{flag} {about}")


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
    assert parsed(decoder, "--decode_hparams=beam_size=4", "--decode_beam_size=4").decode_beam_size == 4
    for more, beam in ((",beam_size=3", 3), ("", 4)):  # 4 is Tensor2Tensor's default
        values = parsed(decoder, f"--decode_hparams=return_beams=True{more}")
        assert (values.n_best, values.decode_beam_size) == (beam, beam)


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


# === Commands with Tensor2Tensor's names: their outputs and errors without a model ===
# === t2t-make-tf-configs ===


def test_each_machine_is_the_worker_that_both_forms_name(monkeypatch):
    lines = call(make_tf_configs, "--masters=a:1,b:2").out.splitlines()
    assert len(lines) == 2
    for index, line in enumerate(lines):
        config, flags = line.split("\t")
        assert flags == f"--worker_hosts=a:1,b:2 --worker_index={index}"
        monkeypatch.setenv("TF_CONFIG", config.strip("'"))
        assert find_cluster("", -1) == find_cluster("a:1,b:2", index)


# === Waiting for checkpoints ===
def test_each_step_comes_once_also_one_that_appears_later():
    there, polls = [30, 10], []

    def list_steps():
        polls.append(1)
        return [*there, 40] if len(polls) > 3 else there

    found = steps_as_they_appear(list_steps, min_steps=20, wait_minutes=LIMIT_S / 60, pause_s=0.001)
    assert list(itertools.islice(found, 2)) == [30, 40]
    assert list(steps_as_they_appear(lambda: [2, 1], wait_minutes=1e-4, pause_s=0.001)) == [1, 2]
    assert list(steps_as_they_appear(lambda: [2, 1])) == [1, 2]


# === t2t-bleu of a folder ===
@pytest.fixture
def translations(tmp_path):
    (tmp_path / "all").mkdir()
    (tmp_path / "reference").write_text("The cat sat on the mat .\nA dog ran home again .\n")
    for step, text in ((9, "the cat sat on the mat .\na dog ran home again .\n"), (10, "The cat sat .\nA dog ran .\n")):
        (tmp_path / f"all/my_problem-{step}").write_text(text)
    (tmp_path / "all/notes.txt").write_text("no translation\n")
    return tmp_path


def test_every_file_of_a_folder_is_scored_in_the_order_of_steps(translations):
    reference, folder = {"reference": translations / "reference"}, translations / "all"
    lines = call(bleu, "--bleu_variant=both", translations_dir=folder, **reference).out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["my_problem-9"] * 2 + ["my_problem-10"] * 2
    singles = [
        call(bleu, *case, translation=folder / f"my_problem-{step}", **reference).out.strip()
        for step in (9, 10)
        for case in (["--lowercase"], [])
    ]
    assert [line.split(": ", 1)[1] for line in lines] == singles
    assert call(bleu, "--min_steps=10", translations_dir=folder, **reference).out.startswith("my_problem-10: BLEU = ")


CASES = {
    (): ["cased"], ("--nolowercase",): ["cased"], ("--lowercase",): ["uncased"],
    ("--bleu_variant=uncased",): ["uncased"], ("--bleu_variant=both",): ["uncased", "cased"],
}  # fmt: skip


def test_bleu_is_logged_under_the_case_that_it_compares(translations):
    import tensorflow as tf

    folders = {"translations_dir": translations / "all", "reference": translations / "reference"}
    for number, (case, variants) in enumerate(CASES.items()):
        events = translations / f"events_{number}"
        call(bleu, "--tag_suffix=_dev", *case, **folders, event_dir=events)
        (file,) = events.iterdir()
        written = [
            (event.step, value.tag, tf.make_ndarray(value.tensor))
            for event in tf.compat.v1.train.summary_iterator(str(file))
            for value in event.summary.value
        ]
        tags = [f"BLEU_{variant}_dev" for variant in variants]
        assert [(step, tag) for step, tag, _ in written] == [(step, tag) for step in (9, 10) for tag in tags]
        for _, tag, value in written[: len(variants)]:
            assert (value == pytest.approx(100)) == (tag == "BLEU_uncased_dev")


# === t2t-datagen of several ===
def test_lists_and_patterns_name_problems_whose_list_is_printed_and_nothing_generated(tmp_path):
    assert select_names("tiny_algo, algorithmic_shift_decimal40,tiny_algo") == [
        "tiny_algo", "algorithmic_shift_decimal40",
    ]  # fmt: skip
    assert select_names("a-b") == ["a", "b"]
    ciphers = [f"algorithmic_cipher_{kind}" for kind in ("shift200", "shift5", "vigenere200", "vigenere5")]
    assert select_names("algorithmic_cipher_*") == ciphers
    assert select_names("algorithmic_cipher_*", "algorithmic_cipher_v*,algorithmic_cipher_shift5") == ciphers[:1]
    with refused("--problem=nothing_*:"):
        select_names("nothing_*")
    with refused("--exclude_problems=tiny*:", "--problem=tiny_algo"):
        select_names("tiny_algo", "tiny*")
    printed = call(datagen, "--only_list", "--problem=algorithmic_cipher_shift*", data_dir=tmp_path / "data").out
    assert printed.split() == ["algorithmic_cipher_shift200", "algorithmic_cipher_shift5"]
    assert not (tmp_path / "data").exists()


# === t2t-query-server ===
@pytest.fixture(scope="module")
def answering():
    """A server; returns a function that sets its status and body, and returns its address."""
    answer = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            assert self.path == "/translate"
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, *args):
            pass

    def serve(status, body):
        answer.update(status=status, body=body)
        return f"127.0.0.1:{server.server_address[1]}"

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running = start_thread(server.serve_forever, 0.01)
        yield serve
        server.shutdown()
        join_all(running)


@pytest.mark.parametrize("text", ["x", "~nobody lives here", "s3://bucket is a name"])
@pytest.mark.parametrize("address", ["{}", "http://{}", "{}/", "http://{}/"])
def test_outputs_come_best_first_with_their_scores(answering, text, address):
    outputs = [{"text": "a\u00e9", "score": -0.25, "log_prob": -1.0}, {"text": "b", "score": -12.5, "log_prob": None}]
    server = answering(200, json.dumps({"translations": [{"outputs": outputs}]}).encode())
    printed = call(query_server, "--n_best=2", server=address.format(server), inputs_once=text).out
    assert printed == "   -0.2500  a\u00e9\n  -12.5000  b\n"


@pytest.mark.parametrize(
    ("status", "body", "about", "exit_status"),
    [
        (404, b'{"error": "no model \'x\'"}', "'x'", 2),
        (503, b'{"error": "too many requests"}', "too many requests", 1),
        (500, b"<html>", "500", 1),
        (200, b"<html>", "--server", 1),
        (200, b'{"other": 1}', "--server", 1),
    ],
)
def test_what_is_no_output_is_one_line(answering, status, body, about, exit_status):
    server = answering(status, body)
    check_refused(query_server, f"--server={server}", "--inputs_once=x", about=f"{server} {about}", status=exit_status)


def test_a_server_that_is_not_there():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        address = f"127.0.0.1:{server.server_address[1]}"
    check_refused(query_server, f"--server={address}", "--inputs_once=x", about=f"http://{address}:", status=1)


@pytest.mark.parametrize(("server", "status"), [("a b", 2), ("a\nb", 2), ("a\x7fb", 2), ("ä" * 64 + ".b", 1)])
def test_names_that_no_machine_has_are_one_line(server, status):
    refusal(query_server, f"--server={server}", "--inputs_once=x", "--timeout_secs=1", status=status)
