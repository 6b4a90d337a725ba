"""Decoding a file: one output line for each input line, and the same bytes however often it was interrupted."""

import functools
import io
import itertools
import json
import os
import re
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t.errors import UserError
from t2t.files.paths import local_path
from t2t.files.progress import Progress
from t2t.files.remote.mirror import fetch
from t2t.inference.files.job import Job, decode_file
from t2t.inference.files.report import LineCount, Report
from tests.stores import memory_store

TEXT = "".join(f"line {n}\n" if n % 7 else "  \n" for n in range(1, 41))


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").write_text(TEXT)

    def make(**changes):
        return Job(**{"source": str(tmp_path / "in"), "target": str(tmp_path / "out"), "window": 8, **changes})

    return make


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def expected(text=TEXT):
    lines = text.split("\n")[:-1]
    return "".join(f"{line[::-1]}@{place}\n" if line.strip() else "\n" for place, line in enumerate(lines))


# === One line for each line ===


def test_every_line_is_answered_in_its_place(job, out, reverser):
    report = decode_file(reverser, job())
    assert out.read_text() == expected()
    assert (report.lines, report.done) == (40, 40)
    assert report.tokens == sum(len(text) + 1 for text in reverser.asked)
    assert report.warnings("the 51 ids that max_input_length allows") == []


def test_lines_name_files_where_inputs_are_not_text(job, out, reading_class, tmp_path):
    """Their paths are relative to the folder of the list, and arrays are not cut as texts are."""
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_text(f"sound of {name}")
    (tmp_path / "in").write_text("a.wav\n\nb.wav\n")
    report = decode_file(reading_class(longest_input=3), job())
    assert out.read_text() == "vaw.a fo dnuos@0\n\nvaw.b fo dnuos@2\n"
    assert report.warnings("limit") == []


def test_the_paths_of_recordings_are_no_text_of_inputs(job, reading_class, tmp_path):
    """What a problem allows for an input depends on its text, which is empty here."""
    seen = []

    class Noting(reading_class):
        def constrains_outputs(self, n_best=1, **changes):
            return True

        def check_terms(self, terms, n_best=1, *, prefix=(), source=None, **changes):
            seen.append(source)

        def translate_ids(self, sentences, n_best=1, *, sources, **others):
            seen.append(sources)
            return super().translate_ids(sentences, n_best, **others)

    for name, text in (("a.wav", "sound"), ("in", "a.wav\n"), ("prefixes", "b\n")):
        (tmp_path / name).write_text(text)
    decode_file(Noting(), job(prefixes=str(tmp_path / "prefixes")))
    assert set(seen) == {"", None}


def test_lines_name_files_of_a_store(job, out, reading_class, tmp_path, monkeypatch):
    """Next to a list that is in a store, too, or by their addresses."""
    with memory_store(monkeypatch, tmp_path / "cache") as store:
        stored = {"list": b"near/a.wav\nmemory://b/far/b.wav\n", "near/a.wav": b"one", "far/b.wav": b"two"}
        store.files.pipe({f"/b/{name}": content for name, content in stored.items()})
        fetch(local_path("memory://b/list"))
        decode_file(reading_class(), job(source=str(local_path("memory://b/list"))))
    assert out.read_text() == "eno@0\nowt@1\n"


def test_each_line_has_its_beginning_whatever_the_windows_and_after_a_crash(job, out, reverser_class, tmp_path):
    """Line n of the prefix file belongs to input line n, also with empty lines and in resumed jobs."""
    begins = [f"begin {n}" if n % 3 else "" for n in range(1, 41)]
    (tmp_path / "prefixes").write_text("".join(line + "\n" for line in begins))
    lines = TEXT.split("\n")[:-1]
    expected = {text: begin for text, begin in zip(lines, begins, strict=True) if text.strip()}

    class Noting(reverser_class):
        def translate_ids(self, sentences, n_best=1, *, prefixes=None, **others):
            for ids, prefix in zip(sentences, prefixes, strict=True):
                assert "".join(map(chr, prefix)) == expected["".join(map(chr, ids))]
            return super().translate_ids(sentences, n_best, **others)

    asked = job(prefixes=str(tmp_path / "prefixes"))
    with pytest.raises(ConnectionError):
        decode_file(Noting(breaks="line 29"), asked)
    second = Noting()
    decode_file(second, asked)
    assert len(second.asked) < 35 - 8, "what was written before is not translated again"
    assert len(out.read_text().splitlines()) == 40


def test_another_number_of_beginnings_is_refused(job, out, reverser, tmp_path):
    (tmp_path / "prefixes").write_text("a\nb\n")
    with pytest.raises(UserError, match=r"prefixes: it has 2 lines and .*in has 40; line n belongs to line n, so give"):
        decode_file(reverser, job(prefixes=str(tmp_path / "prefixes")))
    assert not out.exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (39, "it ends after line 39, before the input"),
        (41, "it has 41 lines and standard input has 40; line n belongs to line n, so give as many, empty where"),
    ],
)
def test_another_number_of_beginnings_than_lines_of_a_stream(job, out, reverser, tmp_path, monkeypatch, lines, message):
    (tmp_path / "prefixes").write_text("a\n" * lines)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
    with pytest.raises(UserError, match=f"prefixes: {message}"):
        decode_file(reverser, job(source="-", prefixes=str(tmp_path / "prefixes")))
    assert not out.exists()


def test_empty_lines_are_not_asked_about(job, reverser):
    decode_file(reverser, job())
    assert len(reverser.asked) == 40 - 5
    assert all(text.strip() for text in reverser.asked)


BLANK = ["", " ", "\t", " \t ", "\u00a0", "\u3000", "\u2003\u2028", "\x0b\x0c", "\x1c\x85"]
NOT_BLANK = [".", " . ", "\u200b", "\ufffd", "\u2800", "\x01"]
"""Invisible letters, zero-width spaces and control characters are not white space."""


@pytest.mark.parametrize(
    ("options", "blank"),
    [
        ({}, ""),
        ({"n_best": 3}, ""),
        ({"output_format": "tsv"}, "\t0.000000\t0.000000"),
        ({"output_format": "tsv", "n_best": 2}, "\t0.000000\t0.000000\t\t\t"),
        ({"output_format": "jsonl"}, '{"line": LINE, "hypotheses": [{"text": "", "score": 0.0, "log_prob": 0.0}]}'),
        ({"changes": {"alignments": True}}, " ||| "),
        ({"output_format": "tsv", "changes": {"alignments": True}}, "\t0.000000\t0.000000\t"),
    ],
)
def test_a_blank_line_gives_a_blank_output_and_nothing_else_does(job, out, tmp_path, reverser, options, blank):
    lines = [text for pair in itertools.zip_longest(BLANK, NOT_BLANK) for text in pair if text is not None]
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in lines).encode())
    decode_file(reverser, job(**options))
    assert reverser.asked == NOT_BLANK
    written = out.read_bytes().decode().split("\n")[:-1]
    assert len(written) == len(lines)
    for number, (line, text) in enumerate(zip(written, lines, strict=True), start=1):
        assert (line == blank.replace("LINE", str(number))) == (text in BLANK), repr(text)


def test_an_input_of_exactly_the_longest_is_not_cut(job, out, tmp_path, reverser_class):
    (tmp_path / "in").write_text("12345\n123456\n1234567\n")
    report = decode_file(reverser_class(longest_input=6), job())
    assert out.read_text() == "54321@0\n654321@1\n654321@2\n"
    assert (report.cut.count, report.cut.first) == (1, [3])


def test_the_first_ten_lines_are_named_and_more_are_said_to_follow():
    count = LineCount()
    for number in range(1, 11):
        count.note(number)
    assert str(count) == "10 lines (number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"
    count.note(11)
    assert str(count) == "11 lines (number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)"


def test_a_language_model_is_asked_to_begin_with_nothing(job, out, reverser_class):
    continuer = reverser_class(has_inputs=False)
    decode_file(continuer, job())
    assert len(continuer.asked) == 40
    assert out.read_text().split("\n")[6] == "  @6"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    content=st.lists(
        st.one_of(st.binary(max_size=9), st.sampled_from([b"", b"\r", b"\x00", b"\xff", "\u2028\x85\x0b\x1c".encode()]))
    ),
    ended=st.booleans(),
    output_format=st.sampled_from(["text", "tsv", "jsonl"]),
    n_best=st.integers(1, 3),
    window=st.integers(1, 5),
)
def test_any_bytes_give_as_many_lines(tmp_path, reverser, content, ended, output_format, n_best, window):
    raw = b"\n".join(content) + (b"\n" if ended else b"")
    if raw[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff"):  # said to be gzip or UTF-16
        raw = b" " + raw
    (tmp_path / "in").write_bytes(raw)
    job = Job(
        source=str(tmp_path / "in"), target=str(tmp_path / "out"), output_format=output_format, n_best=n_best,
        window=window,
    )  # fmt: skip
    report = decode_file(reverser, job)
    written = (tmp_path / "out").read_bytes()
    count = raw.count(b"\n") + (not raw.endswith(b"\n") and bool(raw))
    assert written.count(b"\n") == count == report.lines
    assert written == b"" or written.endswith(b"\n")
    lines = written.decode().split("\n")[:-1]
    for number, line in enumerate(lines, start=1):
        if output_format == "jsonl":
            assert json.loads(line)["line"] == number
        if output_format == "tsv":
            assert line.count("\t") == 3 * n_best - 1


def test_an_empty_file_gives_an_empty_file(job, out, tmp_path, reverser):
    (tmp_path / "in").write_bytes(b"")
    report = decode_file(reverser, job())
    assert out.read_bytes() == b""
    assert report.lines == 0
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_what_was_cut_repaired_and_replaced_is_reported(job, out, tmp_path, reverser_class):
    lines = [b"short", b"much too long", b"a\rb", b"\xff", b"n\x00ul", *[b"also too long"] * 11]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    report = decode_file(reverser_class(longest_input=6), job())
    assert out.read_text().split("\n")[1:3] == ["t hcum@1", "b a@2"]
    assert report.warnings("the 7 ids that max_input_length allows") == [
        "cut to the 7 ids that max_input_length allows: 12 lines (number 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, ...)",
        "NUL characters removed in 1 line",
        "invalid UTF-8 replaced in 1 line",
        "line breaks or tabs inside outputs replaced by spaces: 1 output",
    ]


def test_the_speed_is_that_of_this_attempt():
    report = Report(lines=5000, done=1000, tokens=30_000, seconds=20.0)
    assert report.speed() == "decoded 1,000 lines in 20.0 s: 50.0 sentences/s, 1,500 tokens/s"


def test_progress_counts_every_line_once(out, job, reverser_class, monkeypatch, caplog):
    caplog.set_level("INFO", logger="t2t")
    monkeypatch.setattr("t2t.inference.files.windows.Progress", functools.partial(Progress, seconds=0.0))
    decode_file(reverser_class(), job())
    shown = [message for message in caplog.messages if re.match(r"decoded: [\d,]+ of [\d,]+ sentences, ", message)]
    assert shown[-1].startswith(f"decoded: {TEXT.count(chr(10))} of {TEXT.count(chr(10))} sentences, ")


# === Interruption ===


@pytest.mark.parametrize("options", [{}, {"n_best": 3, "output_format": "jsonl"}, {"output_format": "tsv"}])
def test_interrupted_and_gone_on_is_undisturbed(job, out, tmp_path, reverser_class, options, caplog):
    caplog.set_level("INFO", logger="t2t")
    (tmp_path / "in").write_text(TEXT.replace("line 3\n", "this line is much too long for the model, it is cut\n"))
    decode_file(reverser_class(longest_input=20), job(**options))
    undisturbed = out.read_bytes()
    out.unlink()
    for breaks, done in (("line 18", 16), ("line 30", 24)):
        failing = reverser_class(longest_input=20, breaks=breaks)
        with pytest.raises(ConnectionError):
            decode_file(failing, job(**options))
        assert not out.exists()
        assert (tmp_path / "out.partial").read_bytes().count(b"\n") == done
    last = reverser_class(longest_input=20)
    report = decode_file(last, job(**options))
    assert out.read_bytes() == undisturbed
    assert "resuming after line 24 of an interrupted attempt" in caplog.messages
    assert last.asked[0] == "line 25"
    assert (report.lines, report.done, report.cut.count, report.cut.first) == (40, 16, 1, [3])
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize(
    "change",
    [
        {"window": 4}, {"n_best": 2}, {"output_format": "tsv"}, {"changes": {"seed": 1}}, {"changes": {"alpha": 1.0}},
        {"weights": "others"}, {"input": "line 0\n" + TEXT},
    ],
)  # fmt: skip
def test_another_job_starts_again(job, out, tmp_path, reverser_class, change):
    with pytest.raises(ConnectionError):
        decode_file(reverser_class(breaks="line 18"), job())
    if "input" in change:
        (tmp_path / "in").write_text(change["input"])
    translator = reverser_class(weights=change.get("weights", "w"))
    asked = {name: value for name, value in change.items() if name not in ("weights", "input")}
    report = decode_file(translator, job(**asked))
    assert report.done == report.lines
    assert len(out.read_text().split("\n")) == report.lines + 1


@pytest.fixture
def sounds(tmp_path):
    """Eight recordings and their list, whose third window has one that is missing."""
    names = [f"{n}.wav" for n in range(8)]
    (tmp_path / "in").write_text("".join(f"{name}\n" for name in names))
    for name in set(names) - {"5.wav"}:
        (tmp_path / name).write_text(f"sound of {name}")
    return names


def test_what_precedes_a_missing_file_is_kept_when_that_is_added(job, out, tmp_path, reading_class, sounds):
    with pytest.raises(FileNotFoundError):
        decode_file(reading_class(), job(window=2))
    (tmp_path / "5.wav").write_text("sound of 5.wav")
    last = reading_class()
    report = decode_file(last, job(window=2))
    assert last.asked == [f"sound of {name}" for name in sounds[4:]]
    assert (report.lines, report.done) == (8, 4)
    assert out.read_text().split("\n")[:-1] == [f"vaw.{n} fo dnuos@{n}" for n in range(8)]


@pytest.mark.parametrize("change", ["written", "touched", "removed"])
def test_files_that_have_changed_since_are_read_again(job, out, tmp_path, reading_class, sounds, change):
    with pytest.raises(FileNotFoundError):
        decode_file(reading_class(), job(window=2))
    (tmp_path / "5.wav").write_text("sound of 5.wav")
    if change == "removed":
        (tmp_path / "1.wav").unlink()
        with pytest.raises(FileNotFoundError):
            decode_file(reading_class(), job(window=2))
    if change == "touched":
        os.utime(tmp_path / "1.wav", ns=(0, 0))
    else:
        (tmp_path / "1.wav").write_text("another sound")
    last = reading_class()
    report = decode_file(last, job(window=2))
    assert report.done == len(last.asked) == 8
    assert out.read_text().split("\n")[1] == ("vaw.1 fo dnuos@1" if change == "touched" else "dnuos rehtona@1")


def test_a_stream_starts_again(out, tmp_path, reverser_class, monkeypatch):
    job = Job(source="-", target=str(out), window=8)
    for breaks in ("line 18", None):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT.encode())))
        translator = reverser_class(breaks=breaks)
        if breaks:
            with pytest.raises(ConnectionError):
                decode_file(translator, job)
        else:
            assert decode_file(translator, job).done == 40
    assert out.read_text() == expected()


# === Mistakes ===


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "/nowhere/in"}, "/nowhere/in: there is no such file; check the path"),
        ({"window": 0}, "--decode_window=0: it is a number of lines; give at least 1"),
        ({"output_format": "xml"}, "output format 'xml' does not exist"),
        ({"n_best": 9}, "n_best=9: too many"),
        ({"target": ""}, "no file to write to was named"),
    ],
)
def test_mistakes_leave_nothing(job, tmp_path, reverser, changes, message):
    with pytest.raises(UserError, match=message):
        decode_file(reverser, job(**changes))
    assert os.listdir(tmp_path) == ["in"]


def test_the_input_is_not_written_over(job, tmp_path, reverser):
    (tmp_path / "same").symlink_to(tmp_path / "in")
    with pytest.raises(UserError, match=r"cannot write .*same: it is the file that is read; write elsewhere"):
        decode_file(reverser, job(target=str(tmp_path / "same")))
    assert (tmp_path / "in").read_text() == TEXT


def test_counts_of_earlier_attempts_are_plain_json():
    report = Report(repaired=Counter())
    for number in range(1, 20):
        report.cut.note(number)
    later = Report()
    later.take_over(json.loads(json.dumps(report.notes())))
    assert (later.cut.count, later.cut.first) == (19, list(range(1, 11)))
