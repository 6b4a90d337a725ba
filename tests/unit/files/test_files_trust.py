"""What a file of unknown origin must pass before it is used."""

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from t2t.errors import UserError
from t2t.files.atomic import write_atomically
from t2t.files.trust import MOST_BYTES, check_inside, check_types, read_sealed, sealed


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
    """What a record may hold."""

    size: int = 3


@dataclasses.dataclass
class Record:
    """One field of each type that files declare."""

    count: int = 1
    is_new: bool = False
    share: float = 0.5
    name: str | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=lambda: {"a": 1})
    sections: dict[str, dict[str, Any]] = dataclasses.field(default_factory=lambda: {"a": {"b": [None]}})
    rows: list[dict[str, Any]] = dataclasses.field(default_factory=lambda: [{}])
    shape: tuple[int, ...] = (1, 2)
    parts: Mapping[str, Part] = dataclasses.field(default_factory=lambda: {"a": Part()})
    rest: Any = None
    later: "Part" = 3


def test_values_of_the_declared_types():
    for change in ({}, {"share": 1}, {"name": "x"}, {"counts": {}}, {"shape": ()}, {"rest": [{}]}):
        check_types(Record(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": True}, "count is of type bool, not int"),
        ({"count": 1.0}, "count is of type float, not int"),
        ({"is_new": 0}, "is_new is of type int, not bool"),
        ({"share": "x"}, "share is of type str, not float"),
        ({"share": True}, "share is of type bool, not float"),
        ({"name": 3}, r"name holds something else than str \| None"),
        ({"counts": [1]}, "counts is of type list, not dict"),
        ({"counts": {"a": True}}, r"counts holds something else than dict\[str, int\]"),
        ({"counts": {1: 1}}, r"counts holds something else than dict\[str, int\]"),
        ({"sections": {"a": 3}}, "sections holds something else than dict"),
        ({"rows": [3]}, "rows holds something else than list"),
        ({"shape": [1, 2]}, "shape is of type list, not tuple"),
        ({"shape": (1, None)}, "shape holds something else than tuple"),
        ({"parts": {"a": 3}}, "parts holds something else than"),
    ],
)
def test_values_of_other_types(change, message):
    with pytest.raises(TypeError, match=message):
        check_types(Record(**change))
