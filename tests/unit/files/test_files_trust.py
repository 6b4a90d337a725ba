"""Checks of untrusted files before they are used."""

import dataclasses
import functools
import io
import json
import os
import pickle
import struct
from collections.abc import Mapping
from typing import Any

import pytest

from t2t.files.atomic import write_atomically
from t2t.files.trust import (
    MOST_BYTES,
    PlainName,
    check_inside,
    check_pickle,
    parse_sealed,
    read_record,
    read_sealed,
    sealed,
)
from tests.errors import refused


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(sealed(path.name, {"step": 12, "name": "ä\n", "values": [0.1, None, {"x": True}]})))
    return path


def test_every_flipped_bit_is_noticed_or_changes_nothing(file):
    whole, values, noticed = file.read_bytes(), read_sealed(file), 0
    for number in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[number // 8] ^= 1 << number % 8
        try:
            found = parse_sealed(file.name, bytes(flipped))
        except ValueError:
            noticed += 1
        else:  # white space, a letter of a \u00e4, or the name of the seal, which is then no known entry
            assert found == values or set(found) - set(values), flipped
    assert noticed > 7 * len(whole)


def test_a_sealed_file_comes_back_without_its_seal_and_under_its_own_name_only(file):
    assert read_sealed(file) == {"step": 12, "name": "ä\n", "values": [0.1, None, {"x": True}]}
    assert parse_sealed("record.json", b'{"step": 3}') == {"step": 3}, "the first versions and hands write no seal"
    other = file.rename(file.with_name("other.json"))
    with refused("seal", by=ValueError):
        read_sealed(other)


def test_what_is_no_record_is_refused_at_any_size():
    for content in (
        *(b"", b"[1]", b"\xff", b"[" * 100_000, b'{"step": ' + b"9" * 5000 + b"}"),
        *(b'{"seal": "x"}', b'{"seal": 3, "step": 3}'),
        b'{"step": 3}'.ljust(MOST_BYTES + 1),
    ):
        with refused(by=ValueError):
            parse_sealed("record.json", content)


def test_links_lead_nowhere_else_and_pipes_are_not_waited_for(tmp_path):
    home = tmp_path / "home"
    (home / "inner").mkdir(parents=True)
    (home / "file").write_text("x")
    (tmp_path / "home2").write_text("x")
    for name, target in {"out": "../home2", "up": "..", "passwd": "/etc/passwd", "gone": "/nowhere"}.items():
        (home / name).symlink_to(target)
        with refused(home / name):
            check_inside(home, home / name)
    (home / "loop").symlink_to("loop")
    (home / "in").symlink_to("file")
    for name in ("file", "inner", "in", "missing", "loop"):
        check_inside(home, home / name)
    os.mkfifo(home / "pipe")
    with refused(home / "pipe"):
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


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_that_fill_the_memory_or_never_end_are_refused_before(protocol):
    shared = ("a", 2.5, None, b"b")
    usual = [{"a": shared, "b": shared}, {1, 2}, frozenset([3]), 10**40, os.mkdir, Exception("a"), []]
    stream = io.BytesIO(b"before" + pickle.dumps(usual, protocol) + b"after")
    stream.seek(6)
    check_pickle(stream)
    assert str(pickle.load(stream)) == str(usual)
    assert stream.read() == b"after"
    doubled = pickle.dumps(functools.reduce(lambda inner, _: (inner, inner), range(40), ()), protocol)
    memo = b"r" + struct.pack("<I", 10**9) if protocol else b"p1000000000\n"
    for content in (doubled, b"}" + memo + b".", b"(t" + b"2\x86" * 40 + b"."):
        with refused(by=ValueError):
            check_pickle(io.BytesIO(content))
    for content in (b"", b"abc", b"t.", pickle.dumps(usual, protocol)[:-9]):
        with refused(by=pickle.UnpicklingError):
            check_pickle(io.BytesIO(content))


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


@pytest.mark.parametrize(("plain", "record"), [
    ({}, Record()),
    ({"name": "x", "shape": [1, 2]}, Record(name="x", shape=(1, 2))),
    ({"sections": {"a": {"b": [None]}}}, Record(sections={"a": {"b": [None]}})),
    ({"rest": [{"any": "thing"}]}, Record(rest=[{"any": "thing"}])),
    ({"parts": {"a": {"size": 2}}}, Record(parts={"a": Part(size=2)})),
])  # fmt: skip
def test_records_of_json(plain, record):
    assert read_record(Record, plain) == record


@pytest.mark.parametrize(("plain", "where"), [
    (None, "object"),
    *(({"count": True}, "$.count"), ({"count": 1.5}, "$.count"), ({"is_new": 0}, "$.is_new"), ({"name": 3}, "$.name")),
    *(({"counts": [1]}, "$.counts"), ({"counts": {"a": True}}, "$.counts[...]")),
    *(({"sections": {"a": 3}}, "$.sections[...]"), ({"rows": [3]}, "$.rows[0]"), ({"shape": [1, None]}, "$.shape[1]")),
    ({"parts": {"a": 3}}, "$.parts[...]"),
    ({"parts": {"a": {"file": "../a"}}}, "$.parts[...].file"),
    ({"coutn": 1}, "'coutn'"),
    ({"parts": {"a": {"sizes": 1}}}, "'sizes'"),
])  # fmt: skip
def test_what_is_no_record(plain, where):
    with refused(where, by=ValueError):
        read_record(Record, plain)
