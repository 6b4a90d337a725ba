"""Every Tensor2Tensor command in docs/coming_from.md runs, with a small run in place of the WMT run."""

import http.server
import json
import re
import shlex
import shutil
import threading

import pytest

import t2t
from t2t.cli.common import parse
from tests.in_process import call, module_of
from tests.readme import ROOT

PAGE = (ROOT / "docs/coming_from.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Tensor2Tensor")[2].partition("What is different")[0]
COMMANDS = re.findall(r"^\| `(t2t-[^`]+)` \|", SECTION, re.M)
OTHERS = re.findall(r"`(t2t-[\w-]+ [^`$\n]+)`", PAGE.partition("\n## fairseq")[2])
"""Commands in place of those of other toolkits."""
EXPRESSIONS = re.findall(r"`(t2t\.[^`]+)`", PAGE)
RUN = re.search(r"`\$RUN` stands for `([^`]+)`", SECTION)[1].replace("\n", " ")
NEEDS_MODEL = re.compile(r"\$RUN|translate-all")
"""Commands that load TensorFlow."""


@pytest.fixture(scope="module")
def server():
    """A fake t2t-server; yields its port and the list of its requests."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            body = {"translations": [{"outputs": [{"text": "3 2 1", "score": -0.5, "log_prob": -1.0}]}]}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one.server_address[1], asked
        one.shutdown()


@pytest.fixture(scope="module")
def folder(tiny_run, tmp_path_factory):
    """A folder with the data, run and files that the page names; its commands run there in the page's order."""
    folder = tmp_path_factory.mktemp("coming_from")
    shutil.copytree(tiny_run.data_dir, folder / "data")
    shutil.copytree(tiny_run.output_dir, folder / "run")
    shutil.copytree(ROOT / "examples/usr_dir", folder / "plugin")
    for name, side in (("input.txt", "source"), ("reference.txt", "target")):
        shutil.copy(tiny_run.raw_dir / f"test.{side}", folder / name)
    (folder / "pairs.txt").write_text("1 2 3\t3 2 1\n4 5\t5 4\n")
    return folder


def words_of(command, tiny_run, port=0):
    """Returns the words of a command of the page, with its names replaced by those of the small run."""
    words = shlex.split(command.replace("$RUN", RUN))
    names = {"translate_ende_wmt32k": "text2text_files", "transformer_base_single_gpu": "transformer_tiny"}
    words = [re.sub("|".join(names), lambda match: names[match[0]], word) for word in words]
    words = [word.replace("localhost:8080", f"127.0.0.1:{port}") for word in words]
    files = [flag for flag in tiny_run.train_flags if re.match("--(train|dev|test|vocab)_", flag)]
    if words[0] == "t2t-trainer" and "$RUN" in command:
        words = [word for word in words if not word.startswith("--worker_gpu=")]  # CPU instead of GPUs
        rest = [flag for flag in tiny_run.train_flags if re.match("--(hparams=|worker_cpu)", flag)]
        words += [*files, *(flag.replace("beam_size=2,", "") for flag in rest)]  # keep the page's beam size
        words += [] if "--train_steps" in command else ["--train_steps=42"]
    if words[0] == "t2t-datagen" and "--problem=text2text_files" in words:
        words += files
    return words


def test_there_is_a_command_of_each_kind():
    kinds = {command.split()[0] for command in COMMANDS}
    assert kinds == {
        "t2t-trainer", "t2t-datagen", "t2t-decoder", "t2t-bleu", "t2t-avg-all", "t2t-translate-all", "t2t-eval",
        "t2t-exporter", "t2t-query-server", "t2t-make-tf-configs",
    }  # fmt: skip


@pytest.mark.parametrize("command", [*COMMANDS, *OTHERS])
def test_flags_are_read_as_they_stand_on_the_page(command):
    words = shlex.split(command.replace("$RUN", RUN))
    assert parse(module_of(words[0]).build_flags(), words, "") is not None


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_python_of_the_page_translates_a_text(expression, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert isinstance(eval(expression, {"t2t": t2t}), str)


@pytest.fixture
def run_rows(folder, tiny_run, server, monkeypatch):
    """Returns a function that runs commands in order, and returns the standard output of each."""
    monkeypatch.chdir(folder)

    def run(rows):
        outputs = {}
        for command in rows:
            name, *flags = words_of(command, tiny_run, server[0])
            outputs[command] = call(module_of(name), *flags, typed=b"1 2 3\n").out
        return outputs

    return run


@pytest.mark.slow  # that the commands do what their rows of the page say, not only that their flags exist
def test_commands_that_need_no_model(folder, server, run_rows):
    rows = [command for command in COMMANDS if not NEEDS_MODEL.search(command)]
    rows = [command for command in rows if "translations_dir" not in command and "output.txt" not in command]
    outputs = list(run_rows(rows).values())
    assert "transformer_base_v1" in outputs[0]
    assert len(outputs[1]) > len(outputs[0])
    assert "algorithmic_reverse_binary40\n" in outputs[2]
    assert {path.name for path in (folder / "more").iterdir()} >= {"algorithmic_identity_binary40", "tiny_algo"}
    assert any(output == "   -0.5000  3 2 1\n" for output in outputs)
    assert server[1][-1] == ("/translate", {"text": ["1 2 3"], "n_best": 1, "model": "run"})


@pytest.mark.slow  # the same of those that train, decode, average and export
def test_commands_of_a_run(folder, run_rows):
    rows = [command for command in COMMANDS if NEEDS_MODEL.search(command) or ".txt" in command]
    outputs = run_rows(rows)
    lines = (folder / "input.txt").read_text().splitlines()
    for name in ("output.txt", "scored.txt", "beams.txt", "translations/text2text_files-40"):
        assert len((folder / name).read_text().splitlines()) == len(lines)
    assert all(line.count("\t") == 2 for line in (folder / "beams.txt").read_text().splitlines())
    assert (folder / "translations/text2text_files-20").exists()
    assert len((folder / "scores.txt").read_text().splitlines()) == 2
    assert list((folder / "events").iterdir())
    assert (folder / "run/export/1/saved_model.pb").exists()
    shown = "".join(outputs.values())
    assert "text2text_files-20: BLEU" in shown
    (scored,) = [output for command, output in outputs.items() if "decode_reference" in command]
    assert scored.startswith("BLEU = ")
    first = next(folder.glob("input.txt.transformer.*.beam4.alpha0.6.decodes"))
    assert first.read_bytes() == (folder / "output.txt").read_bytes(), "the trainer's way of 1.0 and the decoder's"
