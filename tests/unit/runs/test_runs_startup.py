"""TensorFlow's startup messages are hidden; other output during startup is shown."""

import os
import subprocess
import sys
import threading

import pytest

from t2t.runs import startup
from tests.errors import refused
from tests.readme import ROOT
from tests.waiting import LIMIT_S, join_all, start_thread


@pytest.fixture
def _before_tensorflow(monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
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
def test_the_log_level_of_the_user_stays_and_a_process_without_stderr_starts_it_too(monkeypatch):
    def closed(number):
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with startup.quietly():
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    monkeypatch.setattr(startup.os, "dup", closed)
    with startup.quietly():
        pass


@pytest.mark.usefixtures("_before_tensorflow")
def test_threads_that_start_it_together_leave_stderr_as_it_was(capfd):
    inside = threading.Barrier(2, timeout=LIMIT_S)

    def begin():
        inside.wait()
        with startup.quietly():
            pass

    join_all(start_thread(begin), start_thread(begin))
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


def test_python_functions_start_tensorflow_without_a_line_and_use_their_own_types(tmp_path):
    """The function fails after TensorFlow is loaded; starting a device then would also print messages.

    As in a command, Keras starts without `matplotlib`, and the garbage collector leaves alone what was there.
    """
    (tmp_path / "matplotlib.py").write_text("")
    code = (
        "import gc, sys, t2t\n"
        "from t2t.runs.startup import start_command\n"
        "start_command()\n"
        "try:\n    t2t.export_model('nowhere', 'folder')\n"
        "except t2t.UserError as error:\n    print('nowhere' in str(error))\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 100_000)\n"
        "import tensorflow as tf\n"
        "print(int(tf.constant(1)), 'matplotlib' in sys.modules)\n"
        "import matplotlib\n"
        "from tests.builders import batch, tiny_transformer, total_loss\n"
        "model = tiny_transformer()\n"
        "import keras\n"
        "print(total_loss(model, batch())[0] > 0, model.dtype, keras.config.image_data_format())"
    )
    (tmp_path / "keras.json").write_text('{"floatx": "float16", "image_data_format": "channels_first"}')
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment |= {"KERAS_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    assert (done.stdout, done.stderr) == ("True\nTrue True\n1 False\nTrue float32 channels_last\n", "")


@pytest.fixture
def keras_setting(tmp_path, monkeypatch):
    """Returns a function that sets Keras's backend by environment variable or file, as if Keras were not loaded."""

    def make(variable, content):
        monkeypatch.delitem(sys.modules, "keras", raising=False)
        monkeypatch.setitem(sys.modules, "jax", None)  # as if it were not installed
        monkeypatch.setenv("KERAS_BACKEND", variable)
        monkeypatch.setenv("KERAS_HOME", str(tmp_path))
        (tmp_path / "keras.json").write_text(content)

    return make


@pytest.mark.parametrize(("variable", "content", "about"), [
    ("abacus", "", ["KERAS_BACKEND", "abacus", "tensorflow", "jax"]),
    ("jax", "", ["KERAS_BACKEND", "jax"]),
    ("", '{"backend": "torch"}', ["keras.json", "torch", "KERAS_BACKEND"]),
])  # fmt: skip
def test_a_backend_of_keras_that_cannot_be_is_one_line(keras_setting, variable, content, about):
    keras_setting(variable, content)
    with refused(*about):
        startup.prepare_framework()


@pytest.mark.parametrize("content", ['{"backend": "tensorflow"}', "", "[]"])
def test_any_other_setting_of_keras_is_its_own_business(keras_setting, content):
    keras_setting("", content)
    startup.check_keras_backend()


def test_it_is_refused_to_the_thread_that_starts_keras_alone():
    refusing, found = startup._Refusing(["matplotlib"]), []
    join_all(start_thread(lambda: found.append(refusing.find_spec("matplotlib"))))
    assert found == [None]
    assert refusing.find_spec("numpy") is None
    with refused("matplotlib", by=ModuleNotFoundError):
        refusing.find_spec("matplotlib")
