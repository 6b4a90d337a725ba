"""Checks of untrusted files before they are used."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from t2t.errors import UserError
from t2t.files.atomic import write_atomically
from t2t.files.trust import MOST_BYTES, PlainName, check_inside, read_record, read_sealed, sealed


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(sealed(path.name, {"step": 12, "name": "ä\n", "values": [0.1, None, {"x": True}]})))
    return path


def test_a_sealed_file_comes_back_without_its_seal(file):
    assert read_sealed(file) == {"step": 12, "name": "ä\n", "values": [0.1, None, {"x": True}]}


def test_every_flipped_bit_is_noticed_or_changes_nothing(file):
    whole, values, noticed = file.read_bytes(), read_sealed(file), 0
    for place in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            file.write_bytes(flipped)
            try:
                found = read_sealed(file)
            except ValueError:
                noticed += 1
            else:  # white space, a letter of a \u00e4, or the name of the seal, which is then no known entry
                assert found == values or set(found) - set(values), flipped
    assert noticed > 7 * len(whole)


def test_it_holds_under_its_own_name_only(file):
    other = file.rename(file.with_name("other.json"))
    with pytest.raises(ValueError, match="it is not what was written: its entry seal belongs to something else"):
        read_sealed(other)


def test_the_first_versions_and_hands_write_no_seal(tmp_path):
    (tmp_path / "record.json").write_text('{"step": 3}')
    assert read_sealed(tmp_path / "record.json") == {"step": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b"[1]", "it holds no entries"),
        (b"\xff", "invalid start byte"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"step": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        (b'{"seal": "x"}', "it is not what was written"),
        (b'{"seal": 3, "step": 3}', "it is not what was written"),
    ],
)
def test_what_is_no_such_file(tmp_path, content, message):
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_sealed(tmp_path / "record.json")


def test_a_file_of_any_size_is_no_record(tmp_path):
    with (tmp_path / "record.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match="it has more than 67,108,864 bytes"):
        read_sealed(tmp_path / "record.json")


def test_links_lead_nowhere_else_and_pipes_are_not_waited_for(tmp_path):
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True)
    (home / "file").write_text("x")
    (tmp_path / "home2").write_text("x")
    for name, target in {"out": "../home2", "up": "..", "passwd": "/etc/passwd", "gone": "/nowhere"}.items():
        (home / name).symlink_to(target)
        with pytest.raises(UserError, match=rf"home/{name} is a link to outside .*home; put a copy of what it leads"):
            check_inside(home, home / name)
    (home / "loop").symlink_to("loop")
    (home / "in").symlink_to("file")
    for name in ("file", "inner", "in", "missing", "loop"):
        check_inside(home, home / name)
    os.mkfifo(home / "pipe")
    with pytest.raises(UserError, match=r"pipe is neither a file nor a folder but a pipe, socket or device; remove it"):
        read_sealed(home / "pipe")
    (tmp_path / "link").symlink_to(home)  # which its user names
    check_inside(tmp_path / "link", tmp_path / "link" / "file")


def test_writing_follows_no_link_that_lies_in_wait(tmp_path):
    (tmp_path / "victim").write_text("precious")
    for name in ("run.json", ".tmp-run.json"):
        (tmp_path / name).symlink_to("victim")
    write_atomically(tmp_path / "run.json", b"{}")
    assert (tmp_path / "victim").read_text() == "precious"
    assert (tmp_path / "run.json").read_bytes() == b"{}"


@dataclasses.dataclass
class Part:
    """A record within a record."""

    size: int = 3
    file: PlainName = "a"


@dataclasses.dataclass
class Record:
    """One field of each type that files declare."""

    count: int = 1
    is_new: bool = False
    name: str | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    sections: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    shape: tuple[int, ...] = ()
    parts: Mapping[str, Part] = dataclasses.field(default_factory=dict)
    rest: Any = None


@pytest.mark.parametrize(
    ("plain", "record"),
    [
        ({}, Record()),
        ({"name": "x", "shape": [1, 2]}, Record(name="x", shape=(1, 2))),
        (
            {"sections": {"a": {"b": [None]}}, "rest": [{"any": "thing"}]},
            Record(sections={"a": {"b": [None]}}, rest=[{"any": "thing"}]),
        ),
        ({"parts": {"a": {"size": 2}}}, Record(parts={"a": Part(size=2)})),
    ],
)
def test_records_of_json(plain, record):
    assert read_record(Record, plain) == record


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (None, "Expected `object`, got `null`"),
        ({"count": True}, r"Expected `int`, got `bool` - at `\$.count`"),
        ({"count": 1.5}, "Expected `int`, got `float`"),
        ({"is_new": 0}, "Expected `bool`, got `int`"),
        ({"name": 3}, r"Expected `str \| null`, got `int`"),
        ({"counts": [1]}, "Expected `object`, got `array`"),
        ({"counts": {"a": True}}, r"Expected `int`, got `bool` - at `\$.counts\[...\]`"),
        ({"sections": {"a": 3}}, "Expected `object`, got `int`"),
        ({"rows": [3]}, r"at `\$.rows\[0\]`"),
        ({"shape": [1, None]}, r"at `\$.shape\[1\]`"),
        ({"parts": {"a": 3}}, "Expected `object`, got `int`"),
        ({"parts": {"a": {"file": "../a"}}}, r"matching regex .* at `\$.parts\[...\].file`"),
        ({"coutn": 1}, "it has an entry 'coutn', which no record has"),
        ({"parts": {"a": {"sizes": 1}}}, "it has an entry 'sizes', which no record has"),
    ],
)
def test_what_is_no_record(plain, message):
    with pytest.raises(ValueError, match=message):
        read_record(Record, plain)
