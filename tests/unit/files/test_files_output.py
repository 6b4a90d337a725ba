"""Output files that appear only when complete, and resuming from an interrupted attempt."""

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from t2t.errors import MachineError
from t2t.files.output import PartialFile, StreamOutput, check_output, open_output
from tests.errors import refused


class CrashError(Exception):
    pass


def crash_after(path, contents, fingerprint="same"):
    with contextlib.suppress(CrashError), open_output(str(path), fingerprint) as output:
        for content in contents:
            output.write(content, content.count(b"\n"), {"noted": content.decode()})
        raise CrashError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


def test_an_interrupted_attempt_is_gone_on_from_after_its_last_complete_line(path):
    crash_after(path, [b"a\n", b"b\nc\n"])
    assert sorted(os.listdir(path.parent)) == ["out.partial", "out.partial.json"]
    with open(f"{path}.partial", "ab") as partial:
        partial.write(b"half a li")
    with open_output(str(path), "same") as output:
        assert (output.lines, output.notes) == (3, {"noted": "b\nc\n"})
        output.write(b"d\n", 1, {})
        assert output.lines == 4
        output.finish()
    assert path.read_bytes() == b"a\nb\nc\nd\n"


def test_the_file_is_not_there_before_it_is_finished_and_a_link_stays_a_link(path):
    real = path.parent / "elsewhere"
    for link in (path, path.with_name("link")):
        if link != path:
            link.symlink_to(real)
        with open_output(str(link), "same") as output:
            output.write(b"a\nb\n", 2, {})
            assert not link.exists()
            output.finish()
        assert link.read_bytes() == b"a\nb\n"
    assert (link.is_symlink(), real.read_bytes()) == (True, b"a\nb\n")
    assert sorted(os.listdir(path.parent)) == ["elsewhere", "link", "out"]


def test_lines_are_thrown_away_and_an_unfinished_attempt_leaves_the_old_output_alone(path):
    crash_after(path, [b"a\n"])
    with PartialFile(path, "same") as output:
        output.write(b"b\nc\n", 2, {})
        assert list(output.written()) == [b"a\n", b"b\n", b"c\n"]
        output.discard()
    assert os.listdir(path.parent) == []
    crash_after(path, [])
    assert os.listdir(path.parent) == []
    path.write_bytes(b"old\n")
    crash_after(path, [b"new\n"])
    assert path.read_bytes() == b"old\n"


def flip_first_byte(path):
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def as_later_format(path):
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))


@pytest.mark.parametrize(("fingerprint", "file", "change"), [
    ("other", "out", lambda path: None),
    (None, "out", lambda path: None),
    ("same", "out.partial", flip_first_byte),
    ("same", "out.partial", lambda path: os.truncate(path, 1)),
    ("same", "out.partial.json", os.unlink),
    ("same", "out.partial.json", lambda path: os.truncate(path, 20)),
    ("same", "out.partial.json", as_later_format),
])  # fmt: skip
def test_nothing_else_is_taken_over(path, fingerprint, file, change):
    crash_after(path, [b"a\n", b"b\n"])
    change(path.with_name(file))
    with open_output(str(path), fingerprint) as output:
        assert (output.lines, output.notes) == (0, {})
        output.write(b"z\n", 1, {})
        output.finish()
    assert path.read_bytes() == b"z\n"
    assert os.listdir(path.parent) == ["out"]


HOLDER = """
import sys
from t2t.files.output import open_output
with open_output(sys.argv[1], "same") as output:
    output.write(b"a\\n", 1, {})
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_two_processes_do_not_write_one_file_and_one_that_was_killed_is_gone_on_from(path):
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with refused("out.partial"):
            open_output(str(path), "same").__enter__()
        holder.kill()
    with open_output(str(path), "same") as output:  # its end has freed the lock
        assert output.lines == 1
        output.finish()
    assert path.read_bytes() == b"a\n"


def test_devices_and_standard_output_are_written_and_not_replaced(capsysbinary):
    for device in ("/dev/null", "-"):
        with open_output(device, "same") as output:
            assert isinstance(output, StreamOutput)
            output.write("ü\n".encode(), 1, {})
            output.finish()
    assert capsysbinary.readouterr().out == "ü\n".encode()
    assert not os.path.isfile("/dev/null")
    with refused("/dev/full", by=MachineError), open_output("/dev/full", None) as output:
        output.write(b"a\n", 1, {})


def fill(path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_output(str(path), "same") as output:
        output.write(b"a\n" * 500, 500, {})
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, hard))
        try:
            output.write(b"b\n" * 500, 500, {})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_what_can_be_gone_on_from(path):
    with refused("out.partial", by=MachineError):
        fill(path)
    with open_output(str(path), "same") as output:
        assert output.lines == 500
        output.write(b"b\n", 1, {})
        output.finish()
    assert path.read_bytes() == b"a\n" * 500 + b"b\n"


def test_paths_that_cannot_be_written(tmp_path, path, monkeypatch):
    for wrong in (tmp_path, tmp_path / "gone" / "out"):
        with refused(wrong, wrong.parent):
            check_output(str(wrong))
    with refused("/proc/out", by=MachineError):
        PartialFile(Path("/proc/out"), "same").__enter__()
    monkeypatch.setattr(os, "access", lambda *args: False)  # root may write anywhere
    with refused(path, by=MachineError):
        open_output(str(path), "same")
    assert os.listdir(tmp_path) == []
