"""`t2t-trainer --studio`: serves the pages of `t2t-insight` in a separate process while a run trains."""

import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import keras

from t2t.files.atomic import describe_os_error
from t2t.runs.startup import environment_of_child

log = logging.getLogger("t2t")

_COMMAND = "import sys; from t2t.cli.insight import main; sys.argv[0] = 't2t-insight'; sys.exit(main())"
_ADDRESS = re.compile(r"serving at (http://\S+:\d+)")
_NICENESS = 10
"""Gives training priority when cores are scarce."""
_PATIENCE_S = 5.0
"""Seconds for the process to end by itself before it is killed."""


class ShowStudio(keras.callbacks.Callback):
    """Serves the training run on a free local port and logs the address.

    The server is a separate low-priority process that loads models on the CPU only, so training keeps the GPUs to
    itself. It ends with training, even if that is killed, because its standard input is a pipe from the trainer. If it
    fails, training continues.

    Args:
        folder: folder of the run.
        data_folder: folder of its data, for the pages that show data.
        python: path of the interpreter that serves.
    """

    def __init__(self, folder: Path, data_folder: Path, python: str = sys.executable):
        super().__init__()
        self._python = python
        self._flags = [str(folder), f"--data_dir={data_folder}", "--port=0", "--ends_with_input"]
        self._process: subprocess.Popen[bytes] | None = None

    def on_train_begin(self, logs=None):
        """Starts the server; the run's folder exists by now."""
        environment = environment_of_child(CUDA_VISIBLE_DEVICES="-1")
        environment.pop("TF_CONFIG", None)
        try:
            self._process = subprocess.Popen(
                [self._python, "-c", _COMMAND, *self._flags],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
                start_new_session=True,  # Ctrl-C reaches only the trainer, which then ends the server
            )  # fmt: skip
        except OSError as error:
            log.warning("no studio, training goes on: %s", describe_os_error(error))
            return
        with contextlib.suppress(OSError, AttributeError):  # not on every system
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICENESS)
        assert self._process.stderr is not None
        threading.Thread(target=self._report, args=(self._process.stderr,), name="studio", daemon=True).start()

    def on_train_end(self, logs=None):
        """Ends the server."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        process.stdin.close()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _report(self, lines: IO[bytes]) -> None:
        """Logs the address, and the last line of the server's standard error if it ends by itself."""
        text = ""
        with lines:
            for line in lines:
                text = line.decode("utf-8", "replace").strip() or text
                if found := _ADDRESS.search(text):
                    log.info("studio at %s while the run trains", found[1])
        if self._process is not None:
            log.warning("%s; training goes on without the studio", text or "the studio has ended")
