"""Commands with Tensor2Tensor's names: their outputs and errors without a model."""

import http.server
import itertools
import json

import pytest

from t2t.cli import bleu, datagen, make_tf_configs, query_server
from t2t.cli.polling import steps_as_they_appear
from t2t.runs.names import select_names
from t2t.training.cluster import find_cluster
from tests.errors import refused
from tests.in_process import check_refused, refusal
from tests.waiting import LIMIT_S, join_all, start_thread


def run(command, *arguments):
    return command.main(["t2t-command", *map(str, arguments)])


# === t2t-make-tf-configs ===


def test_each_machine_is_the_worker_that_both_forms_name(capsys, monkeypatch):
    assert run(make_tf_configs, "--masters=a:1,b:2") == 0
    lines = capsys.readouterr().out.splitlines()
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


def test_every_file_of_a_folder_is_scored_in_the_order_of_steps(translations, capsys):
    reference = f"--reference={translations}/reference"
    assert run(bleu, f"--translations_dir={translations}/all", reference, "--bleu_variant=both") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["my_problem-9"] * 2 + ["my_problem-10"] * 2
    singles = []
    for step in (9, 10):
        for case in (["--lowercase"], []):
            assert run(bleu, f"--translation={translations}/all/my_problem-{step}", reference, *case) == 0
            singles.append(capsys.readouterr().out.strip())
    assert [line.split(": ", 1)[1] for line in lines] == singles
    assert run(bleu, f"--translations_dir={translations}/all", reference, "--min_steps=10") == 0
    assert capsys.readouterr().out.startswith("my_problem-10: BLEU = ")


CASES = {
    (): ["cased"], ("--nolowercase",): ["cased"], ("--lowercase",): ["uncased"],
    ("--bleu_variant=uncased",): ["uncased"], ("--bleu_variant=both",): ["uncased", "cased"],
}  # fmt: skip


def test_bleu_is_logged_under_the_case_that_it_compares(translations):
    import tensorflow as tf

    folder, reference = f"--translations_dir={translations}/all", f"--reference={translations}/reference"
    for number, (case, variants) in enumerate(CASES.items()):
        events = translations / f"events_{number}"
        assert run(bleu, folder, reference, f"--event_dir={events}", "--tag_suffix=_dev", *case) == 0
        (file,) = events.iterdir()
        written = [
            (event.step, value.tag, tf.make_ndarray(value.tensor))
            for event in tf.compat.v1.train.summary_iterator(str(file))
            for value in event.summary.value
        ]
        assert [(step, tag) for step, tag, _ in written] == [
            (step, f"BLEU_{variant}_dev") for step in (9, 10) for variant in variants
        ]
        for _, tag, value in written[: len(variants)]:
            assert (value == pytest.approx(100)) == (tag == "BLEU_uncased_dev")


# === t2t-datagen of several ===


def test_lists_and_patterns_name_problems():
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


def test_a_list_is_printed_and_nothing_generated(tmp_path, capsys):
    assert run(datagen, "--only_list", "--problem=algorithmic_cipher_shift*", f"--data_dir={tmp_path}/data") == 0
    assert capsys.readouterr().out.split() == ["algorithmic_cipher_shift200", "algorithmic_cipher_shift5"]
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
def test_outputs_come_best_first_with_their_scores(answering, capsys, text):
    outputs = [{"text": "a\u00e9", "score": -0.25, "log_prob": -1.0}, {"text": "b", "score": -12.5, "log_prob": None}]
    server = answering(200, json.dumps({"translations": [{"outputs": outputs}]}).encode())
    assert run(query_server, f"--server={server}", f"--inputs_once={text}", "--n_best=2") == 0
    assert capsys.readouterr().out == "   -0.2500  a\u00e9\n  -12.5000  b\n"


@pytest.mark.parametrize("address", ["{}", "http://{}", "{}/", "http://{}/"])
def test_an_address_may_end_with_a_slash(answering, capsys, address):
    server = answering(200, b'{"translations": [{"outputs": [{"text": "a", "score": 0}]}]}')
    assert run(query_server, f"--server={address.format(server)}", "--inputs_once=x") == 0
    assert capsys.readouterr().out == "    0.0000  a\n"


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
