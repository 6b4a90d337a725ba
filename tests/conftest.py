"""Shared setup of all tests: a quiet engine with two logical devices, so that one machine can run two replicas.

TensorFlow is not imported here: tests of names, texts, problems and data run without it, in seconds.
"""

import fcntl
import gc
import io
import os
import signal
import types
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# oneDNN compiles a kernel for each shape: a seventh of the time of tests with many small shapes. The slow tests of
# .ci/run use it, as users do.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

# Tests of searches are of the models themselves; those of CTranslate2 ask for it. A comparison would take seconds.
os.environ["T2T_ENGINE"] = "tensorflow"

import hypothesis
import pytest

from tests.after_import import after_import
from tests.errors import check_errors
from tests.raised import errors_made, pytest_sessionfinish, pytest_testnodedown
from tests.registrations import plugins_unloaded

__all__ = ["pytest_sessionfinish", "pytest_testnodedown"]  # hooks

# No deadline per example: time depends on the load of the machine.
hypothesis.settings.register_profile("t2t", deadline=None)
hypothesis.settings.load_profile("t2t")

REPLICAS = 2
SLOW_LIMIT_S = 1800
"""Seconds after which a slow test counts as hanging; the limit of other tests is in pyproject.toml."""
DIVIDED = ("tests/conformance/test_conformance_models.py",)
"""Files whose tests share things only with those of the same case, so that processes may divide the cases."""
GOLDEN = Path(__file__).parent / "golden"
collect_ignore = ["on_jax"]
"""Tests that run in a separate process, see `tests/integration/test_jax.py`."""


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite the files under tests/golden/")


check_errors(errors_made)


def pytest_configure(config):
    # A script that runs the tests in the background has them ignore interruptions, and so would all their processes.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Devices can be split only before the engine starts, which the first operation of any test does.
    if os.environ.get("KERAS_BACKEND") == "jax":
        after_import("jax", _split_devices_of_jax)
    else:
        after_import("tensorflow", _split_devices_of_tensorflow)
    after_import("keras", lambda keras: keras.config.disable_traceback_filtering())  # 8 % of the time of layers


def _split_devices_of_jax(jax):
    jax.config.update("jax_num_cpu_devices", REPLICAS)
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # see t2t.backends.jax.devices


def _split_devices_of_tensorflow(tf):
    tf.debugging.disable_traceback_filtering()
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    if "PYTEST_XDIST_WORKER" in os.environ:  # several processes would compete for cores
        tf.config.threading.set_intra_op_parallelism_threads(1)
    # Graph optimization costs more than running a graph once or twice. Tests that run commands use it, as users do.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def pytest_collection_modifyitems(items):
    for item in items:
        takes_long = item.get_closest_marker("slow") or item.get_closest_marker("exhaustive")
        if takes_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT_S))


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    """Has one process run the tests of a file, so that what they share is made once."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path, _, name = nodeid.partition("::")
            return f"{path} {name.partition('[')[2] or name}" if path in DIVIDED else path

    return ByFile(config, log)


def pytest_collection_finish():
    # All that is imported by now lives as long as the process. To search it for garbage again and again takes a fifth
    # of the time of the tests, which make many short-lived objects.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 5)


@pytest.fixture(scope="module", autouse=True)
def _no_plugin_of_fixtures():
    with plugins_unloaded():
        yield


@pytest.fixture(autouse=True)
def _no_plugin_of_tests(_no_plugin_of_fixtures):
    with plugins_unloaded():
        yield


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """Returns a function that makes a folder once for all processes of a run: `once(name, make)` calls `make(folder)`.

    The folder is to be read only. Of several processes that want it, the first makes it while the others wait.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def make_once(name, make):
        folder, made = shared / "once" / name, shared / "once" / f"{name}.made"
        folder.parent.mkdir(exist_ok=True)
        with open(shared / "once" / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not made.exists():
                assert not folder.exists(), f"another process failed to make {name}"
                folder.mkdir()
                make(folder)
                made.touch()
        return folder

    return make_once


@pytest.fixture
def golden(request):
    """Returns a function that compares text with a file below tests/golden/, or rewrites it with --update-golden."""

    def compare(name, text):
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing; make it with --update-golden and look at what it says"
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def no_network(monkeypatch):
    """A machine from which nothing can be downloaded."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.setattr("urllib.request._opener", None)  # made at the first download, with the proxies of that time


@pytest.fixture
def stdin(monkeypatch):
    """Returns a function that makes bytes the standard input of commands that run in this process."""

    def feed(content):
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))

    return feed
