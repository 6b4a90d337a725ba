"""Commands with Tensor2Tensor's names: their outputs and errors without a model."""

import http.server
import json
import threading

import pytest

from t2t.cli import bleu, datagen, make_tf_configs, polling, query_server, translate_all
from t2t.errors import UserError
from t2t.runs.names import select_names
from t2t.training.cluster import find_cluster


def run(command, *arguments):
    return command.main(["t2t-command", *map(str, arguments)])


def error_of(capsys):
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("t2t-command: error: ")
    return line


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


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--masters: not given; name host:port of each machine"),
        (["--masters=a"], "--masters=a: 'a' is no host:port, e.g. node1:2222"),
        (
            ["--masters=slurm"],
            "--masters=slurm: under Slurm no list is needed; start t2t-trainer --worker_hosts=slurm with srun",
        ),
        (["--masters=a:1", "--ps=b:1"], "--ps=b:1: there are no parameter servers"),
    ],
)
def test_machines_that_make_no_cluster_are_refused(flags, said, capsys):
    assert run(make_tf_configs, *flags) == 2
    assert said in error_of(capsys)


# === Waiting for checkpoints ===


def test_each_step_comes_once_also_one_that_appears_later(monkeypatch):
    there, slept = [30, 10], []

    def sleep(seconds):
        slept.append(seconds)
        there.append(40)

    monkeypatch.setattr(polling.time, "sleep", sleep)
    clock = iter(range(1_000_000))
    monkeypatch.setattr(polling.time, "monotonic", lambda: 3 * next(clock))
    found = list(polling.steps_as_they_appear(lambda: there, min_steps=20, wait_minutes=0.5))
    assert found == [30, 40]
    assert slept
    assert max(slept) <= 10
    assert list(polling.steps_as_they_appear(lambda: [2, 1])) == [1, 2]


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


@pytest.mark.parametrize(
    ("case", "variants"),
    [
        ([], ["cased"]), (["--nolowercase"], ["cased"]), (["--lowercase"], ["uncased"]),
        (["--bleu_variant=uncased"], ["uncased"]), (["--bleu_variant=both"], ["uncased", "cased"]),
    ],
)  # fmt: skip
def test_bleu_is_logged_under_the_case_that_it_compares(translations, monkeypatch, case, variants):
    written = {}

    class Notes:
        def __init__(self, folder, tag_suffix):
            pass

        def write(self, step, scores):
            written[step] = {variant: score.value for variant, score in scores.items()}

    monkeypatch.setattr(bleu, "Events", Notes)
    folder, reference = f"--translations_dir={translations}/all", f"--reference={translations}/reference"
    assert run(bleu, folder, reference, "--event_dir=events", *case) == 0
    assert [list(scores) for scores in written.values()] == [variants] * 2
    for variant, value in written[9].items():
        assert (value == pytest.approx(100)) == (variant == "uncased")


def test_folders_that_cannot_be_scored_are_refused(translations, capsys):
    folder, reference = f"--translations_dir={translations}/all", f"--reference={translations}/reference"
    for flags, said in (
        ([folder], "--reference: not given"),
        ([f"--translations_dir={translations}/none", reference], "there is no such folder"),
        ([folder, reference, "--min_steps=11"], "it has no file <name>-<step> of at least 11 updates"),
        ([folder, reference, "--chrf"], "--chrf: --translations_dir prints BLEU of many files; leave it out"),
        (
            [folder, reference, "--source=a", "--chrf_beta=1", "--nochrf_whitespace", "--ter_no_punct"],
            "--source, --chrf_beta, --chrf_whitespace, --ter_no_punct: --translations_dir prints BLEU of many files",
        ),
        ([folder, reference, "--tag_suffix=a"], "--tag_suffix: no effect without --event_dir; leave it out"),
        ([folder, reference, "--bleu_variant=both", "--lowercase"], "--bleu_variant and --lowercase are both given"),
    ):
        assert run(bleu, *flags) == 2
        assert said in error_of(capsys)
    (translations / "all/other-9").write_text("x\n")
    assert run(bleu, folder, reference) == 2
    assert "are both of step 9; keep the files of one problem" in error_of(capsys)


# === t2t-translate-all ===


def test_translating_all_needs_a_file_and_a_run(tmp_path, capsys):
    assert run(translate_all, f"--model_dir={tmp_path}") == 2
    assert "--source: not given; name a file to decode with every checkpoint" in error_of(capsys)
    (tmp_path / "a").write_text("a\n")
    assert run(translate_all, f"--model_dir={tmp_path}/none", f"--source={tmp_path}/a") == 2
    assert "no run in" in error_of(capsys)


# === t2t-datagen of several ===


def test_lists_and_patterns_name_problems():
    assert select_names("tiny_algo, algorithmic_shift_decimal40,tiny_algo") == [
        "tiny_algo", "algorithmic_shift_decimal40",
    ]  # fmt: skip
    assert select_names("a-b") == ["a", "b"]
    ciphers = [f"algorithmic_cipher_{kind}" for kind in ("shift200", "shift5", "vigenere200", "vigenere5")]
    assert select_names("algorithmic_cipher_*") == ciphers
    assert select_names("algorithmic_cipher_*", "algorithmic_cipher_v*,algorithmic_cipher_shift5") == ciphers[:1]
    with pytest.raises(UserError, match=r"--problem=nothing_\*: no problem begins so; list what there is"):
        select_names("nothing_*")
    with pytest.raises(UserError, match=r"--exclude_problems=tiny\*: it leaves nothing of --problem=tiny_algo"):
        select_names("tiny_algo", "tiny*")


def test_a_list_is_printed_and_nothing_generated(tmp_path, capsys):
    assert run(datagen, "--only_list", "--problem=algorithmic_cipher_shift*", f"--data_dir={tmp_path}/data") == 0
    assert capsys.readouterr().out.split() == ["algorithmic_cipher_shift200", "algorithmic_cipher_shift5"]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("name", ["zzz", "zzz_rev"])
def test_only_problems_are_listed(name, capsys):
    assert run(datagen, "--only_list", f"--problem=algorithmic_reverse_binary40_copy,{name}") == 2
    assert "error: problem 'zzz' is not registered" in error_of(capsys)


# === t2t-query-server ===


@pytest.fixture
def answering():
    """Returns a function that starts a server with a fixed status and body, and returns its address."""
    servers = []

    def serve(status, body):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                assert self.path == "/translate"
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("text", ["x", "~nobody lives here", "s3://bucket is a name"])
def test_outputs_come_best_first_with_their_scores(answering, capsys, text):
    outputs = [{"text": "a\u00e9", "score": -0.25, "log_prob": -1.0}, {"text": "b", "score": -12.5, "log_prob": None}]
    server = answering(200, json.dumps({"translations": [{"outputs": outputs}]}).encode())
    assert run(query_server, f"--server={server}", f"--inputs_once={text}", "--n_best=2") == 0
    assert capsys.readouterr().out == "   -0.2500  a\u00e9\n  -12.5000  b\n"


@pytest.mark.parametrize("begin", ["", "http://"])
@pytest.mark.parametrize("end", ["", "/"])
def test_an_address_may_end_with_a_slash(answering, capsys, begin, end):
    server = answering(200, b'{"translations": [{"outputs": [{"text": "a", "score": 0}]}]}')
    assert run(query_server, f"--server={begin}{server}{end}", "--inputs_once=x") == 0
    assert capsys.readouterr().out == "    0.0000  a\n"


@pytest.mark.parametrize(
    ("status", "body", "said", "exit_status"),
    [
        (404, b'{"error": "no model \'x\'"}', "refuses the text: no model 'x'", 2),
        (503, b'{"error": "too many requests"}', "refuses the text: too many requests", 1),
        (500, b"<html>", "refuses the text: status 500", 1),
        (200, b"<html>", "does not answer as t2t-server does; check --server", 1),
        (200, b'{"other": 1}', "does not answer as t2t-server does; check --server", 1),
    ],
)
def test_what_is_no_output_is_one_line(answering, capsys, status, body, said, exit_status):
    assert run(query_server, f"--server={answering(status, body)}", "--inputs_once=x") == exit_status
    assert said in error_of(capsys)


def test_a_server_that_is_not_there_and_no_server(capsys):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        port = server.server_address[1]
    assert run(query_server, f"--server=127.0.0.1:{port}", "--inputs_once=x") == 1
    assert f"no answer from http://127.0.0.1:{port}: " in error_of(capsys)
    assert run(query_server) == 2
    assert "--server: not given; name host:port of a running t2t-server" in error_of(capsys)


@pytest.mark.parametrize(
    "server",
    ["127.0.0.1:abc", "127.0.0.1:0", "127.0.0.1:99999", "[::1:8501", "http://", "http://:80", "ftp://a", ":80"],
)
def test_what_is_no_address_of_a_server_is_one_line(capsys, server):
    assert run(query_server, f"--server={server}", "--inputs_once=x") == 2
    assert f"--server={server}: it is no address of a web server; give host:port" in error_of(capsys)


@pytest.mark.parametrize("server", ["a b", "a\nb", "a\x7fb", "ä" * 64 + ".b"])
def test_names_that_no_machine_has_are_one_line(capsys, server):
    assert run(query_server, f"--server={server}", "--inputs_once=x", "--timeout_secs=1") in (1, 2)
    error_of(capsys)
