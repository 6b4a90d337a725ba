"""TensorFlow's startup messages are hidden; other output during startup is shown."""

import os
import subprocess
import sys
import threading

import pytest

from t2t.errors import UserError
from t2t.runs import startup
from tests.readme import ROOT


@pytest.fixture
def _before_tensorflow(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow")
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL")


@pytest.mark.usefixtures("_before_tensorflow")
def test_lines_of_starting_are_dropped_and_others_shown(capfd):
    with startup.quietly():
        os.write(2, b"E0000 00:00:1 cuda_fft.cc:467] Unable to register\nWARNING: All log messages before absl::x\n\n")
        os.write(2, b"a line of one's own\n")
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] in ("2", "3")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "a line of one's own\nafter\n"


@pytest.mark.usefixtures("_before_tensorflow")
def test_the_log_level_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with startup.quietly():
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"


@pytest.mark.usefixtures("_before_tensorflow")
def test_threads_that_start_it_together_leave_stderr_as_it_was(capfd):
    inside = threading.Barrier(2)

    def begin():
        inside.wait()
        with startup.quietly():
            pass

    threads = [threading.Thread(target=begin) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


@pytest.mark.usefixtures("_before_tensorflow")
def test_a_process_without_stderr_starts_it_too(monkeypatch):
    def closed(number):
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(startup.os, "dup", closed)
    with startup.quietly():
        pass


def test_python_functions_start_tensorflow_without_a_line():
    """The function fails after TensorFlow is loaded; starting a device then would also print messages."""
    code = (
        "import t2t\n"
        "try:\n    t2t.export_model('nowhere', 'folder')\n"
        "except t2t.UserError as error:\n    print(error)\n"
        "import tensorflow as tf\n"
        "print(int(tf.constant(1)))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    assert done.stderr == ""
    assert done.stdout == "no run in nowhere; train one with t2t.train(output_dir='nowhere')\n1\n"


@pytest.mark.parametrize(
    ("variables", "content", "message"),
    [
        (
            {"KERAS_BACKEND": "abacus"},
            "",
            "KERAS_BACKEND: abacus: models run on tensorflow or jax; set KERAS_BACKEND to",
        ),
        ({"KERAS_BACKEND": "jax"}, "", r"KERAS_BACKEND: jax is not installed; pip install 't2t-keras\[jax\]', or set"),
        ({}, '{"backend": "torch"}', "backend in .*keras.json: torch: models run on tensorflow or jax; set KERAS_"),
    ],
)
def test_a_backend_of_keras_that_cannot_be_is_one_line(variables, content, message, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(startup.importlib.util, "find_spec", lambda name: None)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "keras.json").write_text(content)
    with pytest.raises(UserError, match=message):
        startup.import_quietly("a_module_that_is_not_loaded")


@pytest.mark.parametrize("content", ['{"backend": "tensorflow"}', "", "[]"])
def test_any_other_setting_of_keras_is_its_own_business(content, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    (tmp_path / "keras.json").write_text(content)
    startup.check_keras_backend()


def test_keras_starts_without_a_package_that_is_imported_later():
    """Keras imports `matplotlib` if it is installed."""
    code = (
        "import sys\n"
        "from t2t.runs import startup\n"
        "startup.leave_out('matplotlib')\n"
        "startup.import_quietly('t2t.layers.dropout')\n"
        "print('keras' in sys.modules, 'matplotlib' in sys.modules)\n"
        "import matplotlib\n"
        "print(matplotlib.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("True False\nmatplotlib\n", "")


def test_it_is_refused_to_the_thread_that_starts_keras_alone():
    refusing, found = startup._Refusing(["matplotlib"]), []
    other = threading.Thread(target=lambda: found.append(refusing.find_spec("matplotlib")))
    other.start()
    other.join()
    assert found == [None]
    assert refusing.find_spec("numpy") is None
    with pytest.raises(ModuleNotFoundError):
        refusing.find_spec("matplotlib")
