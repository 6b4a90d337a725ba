"""Runs one pipeline in a separate process: `python -m t2t.pipelines.driver`, which `t2t.pipelines.launch` starts.

Apache Beam cannot stop its workers on this machine before they have finished their shards, so a command that is stopped
or killed could not exit at once. Therefore the pipeline and its workers are a process group, which is killed as soon as
the command has ended for any reason.
"""

import json
import logging
import os
import pickle
import signal
import sys
import threading


def main() -> int:
    """Reads a task from standard input, runs it, and writes the counters to standard output as JSON."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr
    task, text = pickle.load(sys.stdin.buffer)  # from the command, through a pipe
    threading.Thread(target=_end_with_command, daemon=True).start()
    threading.excepthook = _end_after_error
    logging.basicConfig(format="%(message)s", level=logging.ERROR)  # Beam warns about optional packages
    from t2t.pipelines.pipeline import parse_beam_options, run_pipeline, runs_here

    options = parse_beam_options(text)
    if not runs_here(options):
        logging.getLogger().setLevel(logging.INFO)  # the address of the job on its cluster, and the like
    json.dump(run_pipeline(task, range(task.count), options), answer)
    answer.close()
    return 0


def _end_with_command() -> None:
    os.read(sys.stdin.fileno(), 1)  # returns when the command's end of the pipe is closed
    os.killpg(0, signal.SIGKILL)


def _end_after_error(error: threading.ExceptHookArgs) -> None:
    """Ends a pipeline when one of its threads fails, e.g. because its worker died; the others would never end."""
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
