"""Output files that appear only when complete, and resuming from an interrupted attempt."""

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from t2t.errors import MachineError, UserError
from t2t.files.output import PartialFile, StreamOutput, check_output, open_output


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


def test_the_file_is_not_there_before_it_is_finished(path):
    with open_output(str(path), "same") as output:
        output.write(b"a\nb\n", 2, {})
        assert not path.exists()
        output.finish()
    assert path.read_bytes() == b"a\nb\n"
    assert os.listdir(path.parent) == ["out"]


def test_an_interrupted_attempt_is_gone_on_from(path):
    crash_after(path, [b"a\n", b"b\nc\n"])
    assert sorted(os.listdir(path.parent)) == ["out.partial", "out.partial.json"]
    with open_output(str(path), "same") as output:
        assert (output.lines, output.notes) == (3, {"noted": "b\nc\n"})
        output.write(b"d\n", 1, {})
        assert output.lines == 4
        output.finish()
    assert path.read_bytes() == b"a\nb\nc\nd\n"


def test_lines_can_be_read_back_and_thrown_away(path):
    crash_after(path, [b"a\n"])
    with PartialFile(path, "same") as output:
        output.write(b"b\nc\n", 2, {})
        assert list(output.written()) == [b"a\n", b"b\n", b"c\n"]
        output.discard()
    assert os.listdir(path.parent) == []


def test_what_a_crash_has_torn_is_cut_off(path):
    crash_after(path, [b"a\n"])
    with open(f"{path}.partial", "ab") as partial:
        partial.write(b"half a li")
    with open_output(str(path), "same") as output:
        output.write(b"b\n", 1, {})
        output.finish()
    assert path.read_bytes() == b"a\nb\n"


def _other_fingerprint(path):
    return "other"


def _changed(path):
    content = bytearray((path.parent / "out.partial").read_bytes())
    content[0] ^= 1
    (path.parent / "out.partial").write_bytes(content)
    return "same"


def _cut_short(path):
    os.truncate(f"{path}.partial", 1)
    return "same"


def _without_state(path):
    os.unlink(f"{path}.partial.json")
    return "same"


def _torn_state(path):
    os.truncate(f"{path}.partial.json", 20)
    return "same"


def _later_format(path):
    state = json.loads((path.parent / "out.partial.json").read_text())
    (path.parent / "out.partial.json").write_text(json.dumps(state | {"format": 99}))
    return "same"


def _unknown_input(path):
    return None


@pytest.mark.parametrize(
    "change",
    [_other_fingerprint, _changed, _cut_short, _without_state, _torn_state, _later_format, _unknown_input],
)
def test_nothing_else_is_taken_over(path, change):
    crash_after(path, [b"a\n", b"b\n"])
    fingerprint = change(path)
    with open_output(str(path), fingerprint) as output:
        assert (output.lines, output.notes) == (0, {})
        output.write(b"z\n", 1, {})
        output.finish()
    assert path.read_bytes() == b"z\n"
    assert os.listdir(path.parent) == ["out"]


def test_an_attempt_that_wrote_nothing_leaves_nothing(path):
    crash_after(path, [])
    assert os.listdir(path.parent) == []


def test_an_unfinished_attempt_leaves_the_old_output_alone(path):
    path.write_bytes(b"old\n")
    crash_after(path, [b"new\n"])
    assert path.read_bytes() == b"old\n"


def test_a_link_stays_a_link(path):
    real = path.parent / "elsewhere"
    real.write_bytes(b"old\n")
    path.symlink_to(real)
    with open_output(str(path), "same") as output:
        output.write(b"new\n", 1, {})
        output.finish()
    assert path.is_symlink()
    assert real.read_bytes() == b"new\n"


HOLDER = """
import sys
from t2t.files.output import open_output
with open_output(sys.argv[1], "same") as output:
    output.write(b"a\\n", 1, {})
    print("held", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "finish":
        output.finish()
"""


def hold(path, then):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), then], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    return holder


def test_two_processes_do_not_write_one_file(path):
    holder = hold(path, "finish")
    with pytest.raises(UserError, match=r"out.partial: another process is writing it; wait for it or write elsewhere"):
        open_output(str(path), "same").__enter__()
    holder.communicate("\n")
    assert path.read_bytes() == b"a\n"


def test_a_process_that_was_killed_is_gone_on_from(path):
    holder = hold(path, "never")
    holder.kill()
    holder.communicate()
    for _ in range(100):  # the system frees the lock with the process
        try:
            with open_output(str(path), "same") as output:
                assert output.lines == 1
                output.finish()
            break
        except UserError:
            time.sleep(0.05)
    assert path.read_bytes() == b"a\n"


def test_devices_are_written_and_not_replaced():
    with open_output("/dev/null", "same") as output:
        assert isinstance(output, StreamOutput)
        output.write(b"a\n", 1, {})
        output.finish()
    assert not os.path.isfile("/dev/null")


def test_standard_output(capsysbinary):
    with open_output("-", "same") as output:
        output.write("ü\n".encode(), 1, {})
        output.finish()
    assert capsysbinary.readouterr().out == "ü\n".encode()


def test_a_full_device_is_one_line():
    full = open_output("/dev/full", None)
    with pytest.raises(MachineError, match="cannot write /dev/full: No space left on device"), full as output:
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
    with pytest.raises(MachineError, match=r"cannot write .*out.partial: File too large; raise the limit on file size"):
        fill(path)
    with open_output(str(path), "same") as output:
        assert output.lines == 500
        output.write(b"b\n", 1, {})
        output.finish()
    assert path.read_bytes() == b"a\n" * 500 + b"b\n"


def test_places_that_cannot_be_written(tmp_path, path, monkeypatch):
    with pytest.raises(UserError, match="it is a folder; give the name of a file"):
        check_output(str(tmp_path))
    with pytest.raises(UserError, match=r"cannot write .*gone/out: there is no folder .*gone; make it or write"):
        check_output(str(tmp_path / "gone" / "out"))
    monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(MachineError, match="Permission denied; get write permission there or write elsewhere"):
        open_output(str(path), "same")
    assert os.listdir(tmp_path) == []


def test_the_system_may_still_say_no():
    with pytest.raises(MachineError, match="cannot write /proc/out"):
        PartialFile(Path("/proc/out"), "same").__enter__()
