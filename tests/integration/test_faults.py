"""`python -m tests.faults`: what it counts, and that each command survives once; by hand it is tried more often."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.jobs import differences, made_in
from tests.faults.report import Row, write_json

ROOT = Path(__file__).parents[2]
ONCE = ("generation, SIG", "generation, a second process", "training, SIGKILL", "decoding, SIGTERM", "bad text")


@pytest.mark.slow
def test_every_command_survives(tmp_path):
    rows = tmp_path / "rows.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--times=1", f"--json={rows}", "--only", *ONCE],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(rows.read_text())
    names = [row["fault"] for row in found]
    assert names[:6] == ["generation, SIGKILL", "generation, SIGTERM", "generation, SIGINT", *ONCE[1:4]]
    assert all(name.startswith("bad text, ") for name in names[6:])
    assert len(names) > 12
    assert all(row["injected"] == row["survived"] for row in found), done.stdout
    assert [row["injected"] for row in found[:6]] == [1] * 6


def test_rows_say_what_was_survived(tmp_path):
    row = Row("training, SIGKILL")
    row.add("", 2.0)
    row.add("/out: latest.json other", 3.0)
    assert re.fullmatch(r"training, SIGKILL +2 +1 +2\.5\n    /out: latest\.json other", str(row))
    assert re.fullmatch(
        r"full disk +0 +0 +mounting is not allowed here", str(Row("full disk", note="mounting is not allowed here"))
    )
    write_json([row], tmp_path / "rows.json")
    (read,) = json.loads((tmp_path / "rows.json").read_text())
    assert (read["fault"], read["injected"], read["survived"]) == ("training, SIGKILL", 2, 1)


def test_folders_are_told_apart_by_everything_but_the_time(tmp_path):
    def fill(name, created, loss, speed):
        run = tmp_path / name / "run"
        run.mkdir(parents=True)
        (run / "lock").write_text(name)
        (run / "run.json").write_text(json.dumps({"problem": "a", "created": created}))
        lines = [{"step": 2, "time": speed, "train/loss": speed}, {"step": 2, "time": speed, "dev/loss": loss}]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return run

    one, other = fill("one", "1970", 3.0, 8), fill("other", "2038", 3.0, 9)
    assert differences(made_in(one), made_in(other)) == ""
    (other / "checkpoints").mkdir()
    assert differences(made_in(one), made_in(other)) == "checkpoints/ left over"
    assert "metrics.jsonl other" in differences(made_in(one), made_in(fill("third", "1970", 3.1, 8)))
    (other / "run.json").unlink()
    assert differences(made_in(one), made_in(other)) == "checkpoints/ left over, run.json missing"
