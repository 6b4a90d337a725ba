"""Decoding a file: one output line for each input line, and the same bytes however often it was interrupted."""

import itertools
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from t2t.files.paths import local_path
from t2t.files.remote.mirror import fetch
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.report import LineCount, Report
from tests.errors import refused
from tests.reverser import FileReverser, Reverser
from tests.stores import memory_store

LINES = [f"line {n}" if n % 7 else "  " for n in range(1, 41)]
TEXT = "".join(f"{line}\n" for line in LINES)
EXPECTED = "".join(f"{line[::-1]}@{place}\n" if line.strip() else "\n" for place, line in enumerate(LINES))


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").write_text(TEXT)

    def make(**changes):
        return Job(**{"source": str(tmp_path / "in"), "target": str(tmp_path / "out"), "window": 8, **changes})

    return make


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


# === One line for each line ===
def test_every_line_is_answered_in_its_place_and_counted_once(job, out):
    class Watched(Reverser):
        def translate_ids(self, sentences, n_best=1, *, on_done, **others):
            self.progress = on_done.__self__
            return super().translate_ids(sentences, n_best, on_done=on_done, **others)

    reverser = Watched()
    report = decode_file(reverser, job())
    assert out.read_text() == EXPECTED
    assert (report.lines, report.done, report.warnings("so many ids")) == (40, 40, [])
    assert report.tokens == sum(len(text) + 1 for text in reverser.asked)
    assert str(reverser.progress).startswith("decoded: 40 of 40 sentences, ")


def test_lines_name_files_where_inputs_are_not_text(job, out, tmp_path):
    """Their paths are relative to the folder of the list, and arrays are not cut as texts are."""
    for name in ("a.wav", "b.wav"):
        (tmp_path / name).write_text(f"sound of {name}")
    (tmp_path / "in").write_text("a.wav\n\nb.wav\n")
    report = decode_file(FileReverser(longest_input=3), job())
    assert out.read_text() == "vaw.a fo dnuos@0\n\nvaw.b fo dnuos@2\n"
    assert report.warnings("limit") == []


def test_the_paths_of_recordings_are_no_text_of_inputs(job, tmp_path):
    """What a problem allows for an input depends on its text, which is empty here."""
    seen = []

    class Noting(FileReverser):
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


def test_lines_name_files_of_a_store(job, out, tmp_path, monkeypatch):
    """Next to a list that is in a store, too, or by their addresses."""
    with memory_store(monkeypatch, tmp_path / "cache") as store:
        stored = {"list": b"near/a.wav\nmemory://b/far/b.wav\n", "near/a.wav": b"one", "far/b.wav": b"two"}
        store.files.pipe({f"/b/{name}": content for name, content in stored.items()})
        fetch(local_path("memory://b/list"))
        decode_file(FileReverser(), job(source=str(local_path("memory://b/list"))))
    assert out.read_text() == "eno@0\nowt@1\n"


def test_each_line_has_its_beginning_whatever_the_windows_and_after_a_crash(job, out, tmp_path):
    """Line n of the prefix file belongs to input line n, also with empty lines and in resumed jobs."""
    begins = [f"begin {n}" if n % 3 else "" for n in range(1, 41)]
    (tmp_path / "prefixes").write_text("".join(line + "\n" for line in begins))
    begin_of = {text: begin for text, begin in zip(LINES, begins, strict=True) if text.strip()}

    class Noting(Reverser):
        def translate_ids(self, sentences, n_best=1, *, prefixes=None, **others):
            texts, found = (["".join(map(chr, ids)) for ids in rows] for rows in (sentences, prefixes))
            assert found == [begin_of[text] for text in texts]
            return super().translate_ids(sentences, n_best, **others)

    asked = job(prefixes=str(tmp_path / "prefixes"))
    with pytest.raises(ConnectionError):
        decode_file(Noting(breaks="line 29"), asked)
    second = Noting()
    decode_file(second, asked)
    assert len(second.asked) < 35 - 8, "what was written before is not translated again"
    assert len(out.read_text().splitlines()) == 40


@pytest.mark.parametrize(("source", "lines", "about"), [("in", 2, [2, 40]), ("-", 39, [39]), ("-", 41, [41, 40])])
def test_another_number_of_beginnings_is_refused(job, out, tmp_path, stdin, source, lines, about):
    stdin(TEXT.encode())
    prefixes = tmp_path / "prefixes"
    prefixes.write_text("a\n" * lines)
    with refused(prefixes, *about):
        decode_file(Reverser(), job(source=source.replace("in", str(tmp_path / "in")), prefixes=str(prefixes)))
    assert not out.exists()


def test_empty_lines_are_not_asked_about(job):
    reverser = Reverser()
    decode_file(reverser, job())
    assert reverser.asked == [line for line in LINES if line.strip()]
    continuer = Reverser(has_inputs=False)
    decode_file(continuer, job())
    assert continuer.asked == LINES, "a language model is asked to begin with nothing"


BLANK = ["", " ", "\t", " \t ", "\u00a0", "\u3000", "\u2003\u2028", "\x0b\x0c", "\x1c\x85"]
NOT_BLANK = [".", " . ", "\u200b", "\ufffd", "\u2800", "\x01"]
"""Invisible letters, zero-width spaces and control characters are not white space."""


@pytest.mark.parametrize(
    ("options", "blank"),
    [
        ({}, ""), ({"n_best": 3}, ""), ({"output_format": "tsv"}, "\t0.000000\t0.000000"),
        ({"output_format": "tsv", "n_best": 2}, "\t0.000000\t0.000000\t\t\t"),
        ({"output_format": "jsonl"}, '{"line": LINE, "hypotheses": [{"text": "", "score": 0.0, "log_prob": 0.0}]}'),
        ({"changes": {"alignments": True}}, " ||| "),
        ({"output_format": "tsv", "changes": {"alignments": True}}, "\t0.000000\t0.000000\t"),
    ],
)  # fmt: skip
def test_a_blank_line_gives_a_blank_output_and_nothing_else_does(job, out, tmp_path, options, blank):
    reverser = Reverser()
    lines = [text for pair in itertools.zip_longest(BLANK, NOT_BLANK) for text in pair if text is not None]
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in lines).encode())
    decode_file(reverser, job(**options))
    assert reverser.asked == NOT_BLANK
    written = out.read_bytes().decode().split("\n")[:-1]
    for number, (line, text) in enumerate(zip(written, lines, strict=True), start=1):
        assert (line == blank.replace("LINE", str(number))) == (text in BLANK), repr(text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    content=st.lists(
        st.one_of(st.binary(max_size=9), st.sampled_from([b"", b"\r", b"\x00", b"\xff", "\u2028\x85\x0b\x1c".encode()]))
    ),
    ended=st.booleans(),
    output_format=st.sampled_from(["text", "tsv", "jsonl"]),
    n_best=st.integers(1, 3),
    window=st.integers(1, 5),
)
def test_any_bytes_give_as_many_lines(job, out, tmp_path, content, ended, output_format, n_best, window):
    raw = b"\n".join(content) + (b"\n" if ended else b"")
    if raw[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff"):  # said to be gzip or UTF-16
        raw = b" " + raw
    (tmp_path / "in").write_bytes(raw)
    report = decode_file(Reverser(), job(output_format=output_format, n_best=n_best, window=window))
    written = out.read_bytes()
    count = raw.count(b"\n") + (not raw.endswith(b"\n") and bool(raw))
    assert written.count(b"\n") == count == report.lines
    assert written == b"" or written.endswith(b"\n")
    lines = written.decode().split("\n")[:-1]
    if output_format == "jsonl":
        assert [json.loads(line)["line"] for line in lines] == list(range(1, count + 1))
    if output_format == "tsv":
        assert {line.count("\t") for line in lines} <= {3 * n_best - 1}
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


# === What is counted ===
def test_what_was_cut_repaired_and_replaced_is_reported(job, out, tmp_path):
    lines = [b"short", b"123456", b"1234567", b"a\rb", b"\xff", b"n\x00ul", *[b"also too long"] * 11]
    (tmp_path / "in").write_bytes(b"\n".join(lines))
    report = decode_file(Reverser(longest_input=6, unfinished=("short", "a\rb")), job())
    assert out.read_text().split("\n")[1:4] == ["654321@1", "654321@2", "b a@3"]
    assert report.warnings("LIMIT") == [
        "cut to LIMIT: 12 lines (number 3, 7, 8, 9, 10, 11, 12, 13, 14, 15, ...)",
        "outputs that end at their limit, see --decode_extra_length: 2 lines (number 1, 4)",
        "NUL characters removed in 1 line",
        "invalid UTF-8 replaced in 1 line",
        "line breaks or tabs inside outputs replaced by spaces: 1 output",
    ]


def test_the_first_ten_lines_are_named_and_more_are_said_to_follow():
    count = LineCount()
    for number in range(1, 11):
        count.note(number)
    assert str(count) == "10 lines (number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)"
    count.note(11)
    assert str(count) == "11 lines (number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)"


def test_the_speed_is_that_of_this_attempt():
    report = Report(lines=5000, done=1000, tokens=30_000, seconds=20.0)
    assert report.speed() == "decoded 1,000 lines in 20.0 s: 50.0 sentences/s, 1,500 tokens/s"


# === Interruption ===
@pytest.mark.parametrize("options", [{}, {"n_best": 3, "output_format": "jsonl"}, {"output_format": "tsv"}])
def test_interrupted_and_gone_on_is_undisturbed(job, out, tmp_path, options, caplog):
    caplog.set_level("INFO", logger="t2t")
    asked = {"longest_input": 20, "unfinished": ("line 5", "line 30")}
    (tmp_path / "in").write_text(TEXT.replace("line 3\n", "this line is much too long for the model, it is cut\n"))
    decode_file(Reverser(**asked), job(**options))
    undisturbed = out.read_bytes()
    out.unlink()
    for breaks, done in (("line 18", 16), ("line 30", 24)):
        with pytest.raises(ConnectionError):
            decode_file(Reverser(**asked, breaks=breaks), job(**options))
        assert not out.exists()
        assert (tmp_path / "out.partial").read_bytes().count(b"\n") == done
    last = Reverser(**asked)
    report = decode_file(last, job(**options))
    assert out.read_bytes() == undisturbed
    assert "resuming after line 24 of an interrupted attempt" in caplog.messages
    assert last.asked[0] == "line 25"
    assert (report.lines, report.done, report.cut.count, report.cut.first) == (40, 16, 1, [3])
    assert report.cut_outputs.first == [5, 30]
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


@pytest.mark.parametrize(
    ("change", "weights", "more"),
    [
        ({"window": 4}, "w", ""), ({"n_best": 2}, "w", ""), ({"output_format": "tsv"}, "w", ""),
        ({"changes": {"seed": 1}}, "w", ""), ({"changes": {"alpha": 1.0}}, "w", ""), ({}, "others", ""),
        ({}, "w", "line 0\n"),
    ],
)  # fmt: skip
def test_another_job_starts_again(job, out, tmp_path, change, weights, more):
    with pytest.raises(ConnectionError):
        decode_file(Reverser(breaks="line 18"), job())
    (tmp_path / "in").write_text(more + TEXT)
    report = decode_file(Reverser(weights=weights), job(**change))
    assert report.done == report.lines
    assert len(out.read_text().split("\n")) == report.lines + 1


@pytest.mark.parametrize(
    ("change", "done"), [("nothing", 4), ("written", 8), ("touched", 8), ("removed", 8)], ids=lambda value: str(value)
)
def test_what_precedes_a_missing_file_is_kept_unless_files_have_changed(job, out, tmp_path, change, done):
    """Eight recordings, of which the third window lacks one that is added later."""
    names = [f"{n}.wav" for n in range(8)]
    (tmp_path / "in").write_text("".join(f"{name}\n" for name in names))
    for name in set(names) - {"5.wav"}:
        (tmp_path / name).write_text(f"sound of {name}")
    with pytest.raises(FileNotFoundError):
        decode_file(FileReverser(), job(window=2))
    (tmp_path / "5.wav").write_text("sound of 5.wav")
    if change == "removed":
        (tmp_path / "1.wav").unlink()
        with pytest.raises(FileNotFoundError):
            decode_file(FileReverser(), job(window=2))
    if change == "touched":
        os.utime(tmp_path / "1.wav", ns=(0, 0))
    elif change != "nothing":
        (tmp_path / "1.wav").write_text("another sound")
    last = FileReverser()
    report = decode_file(last, job(window=2))
    assert (report.lines, report.done, len(last.asked)) == (8, done, done)
    expected = [f"vaw.{n} fo dnuos@{n}" for n in range(8)]
    expected[1] = "dnuos rehtona@1" if change in ("written", "removed") else expected[1]
    assert out.read_text().splitlines() == expected


def test_a_stream_starts_again(job, out, stdin):
    stdin(TEXT.encode())
    with pytest.raises(ConnectionError):
        decode_file(Reverser(breaks="line 18"), job(source="-"))
    stdin(TEXT.encode())
    assert decode_file(Reverser(), job(source="-")).done == 40
    assert out.read_text() == EXPECTED


# === Mistakes ===
@pytest.mark.parametrize(
    ("changes", "about"),
    [
        ({"source": "/nowhere/in"}, ["/nowhere/in"]), ({"window": 0}, ["--decode_window=0", 1]),
        ({"output_format": "xml"}, ["'xml'"]), ({"n_best": 9}, ["n_best=9"]), ({"target": ""}, []),
        ({"target": "same"}, ["same"]),
    ],
)  # fmt: skip
def test_mistakes_leave_nothing(job, tmp_path, monkeypatch, changes, about):
    """The input is not written over, either."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "same").symlink_to(tmp_path / "in")
    with refused(*about):
        decode_file(Reverser(), job(**changes))
    assert sorted(os.listdir(tmp_path)) == ["in", "same"]
    assert (tmp_path / "in").read_text() == TEXT
