"""Merging shards gives byte for byte the file of one machine, whichever process was killed before."""

import gzip
import itertools
import os
import random
import re

import pytest

from t2t.errors import MachineError, UserError
from t2t.files import atomic, file_marks
from t2t.files.output import PartialFile
from t2t.inference.files import merging
from t2t.inference.files.job import Job, decode_file
from t2t.inference.files.merging import merge_parts
from t2t.inference.files.scoring import score_file
from t2t.inference.files.shards import Shard
from t2t.inference.files.windows import FileJob

LINES = [f"line {n}".encode() if n % 7 else b"  " for n in range(1, 44)]
LINES[4], LINES[20], LINES[33] = b"much too long for this model", b"n\x00ul", b"\xff and a \r inside"
LINES[41] = b"too long, and in the last window"
WINDOWS = 6
"""Number of windows of eight lines; the last one has three."""


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files count as settled immediately, so that indexes are stored."""
    monkeypatch.setattr(file_marks, "_SETTLED_NS", -(10**18))


@pytest.fixture
def translator(reverser_class):
    return reverser_class(longest_input=20)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").write_bytes(b"\n".join(LINES) + b"\n")
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"\n".join(LINES)))
    (tmp_path / "prefixes").write_text("".join(f"begin {n}\n" if n % 3 else "\n" for n in range(1, 44)))
    (tmp_path / "pairs").write_bytes(b"".join(b"source\t%s\n" % line for line in LINES))

    def make(kind=Job, source="in", target="out", **changes):
        return kind(source=str(tmp_path / source), target=str(tmp_path / target), window=8, **changes)

    return make


def shards(count):
    """Returns the shards of a file in random order."""
    numbers = list(range(count))
    random.Random(count).shuffle(numbers)
    return [Shard(number, count) for number in numbers]


def merge(job):
    return merge_parts(job.source, job.target)


def leftovers(folder):
    return sorted(set(os.listdir(folder)) - {"in", "in.gz", "prefixes", "pairs"})


# === The file of one machine ===


@pytest.mark.parametrize("count", [1, 2, 4, WINDOWS, 15])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"n_best": 3, "output_format": "jsonl"}, {"n_best": 2, "output_format": "tsv"}, {"source": "in.gz"},
        {"changes": {"alignments": True, "seed": 3}},
    ],
)  # fmt: skip
def test_merged_shards_are_the_file_of_one_machine(job, tmp_path, translator, options, count):
    one = decode_file(translator, job(target="one", **options))
    for shard in shards(count):
        decode_file(translator, job(**options, shard=shard))
    assert not (tmp_path / "out").exists()
    merged = merge(job(**options))
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()
    assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]
    assert merged.lines == one.lines == 43
    assert merged.tokens == one.tokens
    assert merged.warnings("the 21 ids") == one.warnings("the 21 ids")
    assert merged.warnings("the 21 ids")[0] == "cut to the 21 ids: 2 lines (number 5, 42)"


def test_each_line_has_its_beginning_in_whichever_shard_it_is(job, tmp_path, reverser_class):
    class Beginner(reverser_class):
        def translate_ids(self, sentences, n_best=1, *, prefixes=None, **others):
            texts = ["".join(map(chr, prefix)) for prefix in prefixes]
            self.begun.update(zip(others["seeds"], texts, strict=True))
            return super().translate_ids(sentences, n_best, **others)

    translator = Beginner()
    translator.begun = {}
    for shard in shards(4):
        decode_file(translator, job(prefixes=str(tmp_path / "prefixes"), shard=shard))
    begins = (tmp_path / "prefixes").read_text().split("\n")
    assert translator.begun == {place: begins[place] for place, line in enumerate(LINES) if line.strip()}
    merge(job())
    assert leftovers(tmp_path) == [".out.merged.json", "out"]


def test_another_number_of_beginnings_is_refused(job, tmp_path, translator):
    (tmp_path / "prefixes").write_text("a\n")
    with pytest.raises(UserError, match=r"prefixes: it has 1 lines and .*in has 43; line n belongs to line n, so give"):
        decode_file(translator, job(prefixes=str(tmp_path / "prefixes"), shard=Shard(2, 3)))


def test_scores_of_shards_are_those_of_the_file(job, tmp_path, translator):
    score_file(translator, job(FileJob, "pairs", "one"))
    for shard in shards(4):
        score_file(translator, job(FileJob, "pairs", shard=shard))
    assert merge(job(FileJob, "pairs")).verb == "scored"
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()
    assert b"nan" in (tmp_path / "out").read_bytes()


def test_a_line_without_its_columns_is_told_by_its_number_in_the_file(job, tmp_path, translator):
    (tmp_path / "pairs").write_bytes((tmp_path / "pairs").read_bytes() + b"no columns\n")
    score_file(translator, job(FileJob, "pairs", shard=Shard(0, 2)))
    with pytest.raises(UserError, match=r"pairs: line 44 has 1 column; a line needs 2, source TAB target; correct"):
        score_file(translator, job(FileJob, "pairs", shard=Shard(1, 2)))


def test_a_shard_without_lines_says_so(job, tmp_path, translator, caplog):
    caplog.set_level("INFO", logger="t2t")
    decode_file(translator, job(shard=Shard(0, 15)))
    assert f"shard 0/15 is empty: {tmp_path}/in has 6 windows of 8 lines" in caplog.messages
    assert (tmp_path / "out.shard-00000-of-00015").read_bytes() == b""


def test_an_empty_file_is_merged_to_an_empty_file(job, tmp_path, translator):
    (tmp_path / "in").write_bytes(b"")
    for shard in shards(2):
        decode_file(translator, job(shard=shard))
    assert merge(job()).lines == 0
    assert (tmp_path / "out").read_bytes() == b""
    assert leftovers(tmp_path) == [".out.merged.json", "out"]


# === Interruption ===


def test_a_killed_shard_goes_on_and_a_finished_one_is_not_made_again(job, tmp_path, reverser_class, caplog):
    caplog.set_level("INFO", logger="t2t")
    one = decode_file(reverser_class(longest_input=20), job(target="one"))
    with pytest.raises(ConnectionError):
        decode_file(reverser_class(longest_input=20, breaks="line 40"), job(shard=Shard(1, 2)))
    part = "out.shard-00001-of-00002"
    assert leftovers(tmp_path) == ["one", "out.lines.json", f"{part}.partial", f"{part}.partial.json"]
    last = reverser_class(longest_input=20)
    report = decode_file(last, job(shard=Shard(1, 2)))
    assert "resuming after line 32 of an interrupted attempt" in caplog.messages
    assert last.asked[0] == "line 33"
    assert (report.lines, report.done) == (43, 11)
    again = reverser_class(longest_input=20)
    repeated = decode_file(again, job(shard=Shard(1, 2)))
    assert again.asked == []
    assert f"{tmp_path}/out.shard-00001-of-00002 is there already" in caplog.messages
    assert (repeated.done, repeated.tokens, repeated.repaired) == (0, report.tokens, report.repaired)
    decode_file(again, job(shard=Shard(0, 2)))
    merged = merge(job())
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()
    assert merged.tokens == one.tokens, "of both attempts"
    assert merged.warnings("") == one.warnings("")


def test_a_damaged_part_is_made_again(job, tmp_path, translator):
    decode_file(translator, job(target="one"))
    for shard in shards(2):
        decode_file(translator, job(shard=shard))
    part = tmp_path / "out.shard-00001-of-00002"
    part.write_bytes(part.read_bytes().replace(b"enil", b"ENIL", 1))
    with pytest.raises(UserError, match=rf"{part} is damaged: it is not what its record says; make it again: --shard="):
        merge(job())
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()
    decode_file(translator, job(shard=Shard(1, 2)))
    merge(job())
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()


class Killed(BaseException):
    """Simulates the death of the process."""


def test_a_merger_that_is_killed_goes_on(job, tmp_path, translator, monkeypatch):
    """It is killed before each rename and each removal in turn."""
    decode_file(translator, job(target="one"))
    for changes in itertools.count():
        for shard in shards(3):
            decode_file(translator, job(shard=shard))
        left = itertools.count(changes, -1)

        def killed(original, left=left):
            def change_or_die(*arguments, **options):
                if next(left) == 0:
                    raise Killed
                return original(*arguments, **options)

            return change_or_die

        with monkeypatch.context() as patched:
            for module, name in ((os, "replace"), (merging.Path, "unlink")):
                patched.setattr(module, name, killed(getattr(module, name)))
            patched.setattr(merging.PartialFile, "discard", lambda output: None)  # a killed process does not clean up
            try:
                merge(job())
                break
            except Killed:
                pass
        assert merge(job()).lines == 43
        assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()
        assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]
        assert merge(job()).lines == 43, "again, where there is nothing left to do"
        (tmp_path / "out").unlink()
    assert changes > 2 + 2 * 3, "two files written, and three parts removed, with their records"


def test_a_shard_that_comes_after_the_merger_is_not_made_again(job, tmp_path, reverser_class, caplog):
    caplog.set_level("INFO", logger="t2t")
    decode_file(reverser_class(), job(shard=Shard(0, 1)))
    merge(job())
    again = reverser_class()
    decode_file(again, job(shard=Shard(0, 1)))
    assert again.asked == []
    assert f"{tmp_path}/out is there already" in caplog.messages
    assert not (tmp_path / "out.shard-00000-of-00001").exists()


@pytest.fixture
def sounds(job, tmp_path):
    """The input is a list of 24 recordings, three windows."""
    for n in range(24):
        (tmp_path / f"{n}.wav").write_text(f"sound {n}")
    (tmp_path / "in").write_text("".join(f"{n}.wav\n" for n in range(24)))


@pytest.mark.usefixtures("sounds")
def test_a_shard_is_made_again_if_a_recording_that_it_names_has_changed(job, tmp_path, reading_class):
    def asked(number):
        translator = reading_class()
        decode_file(translator, job(shard=Shard(number, 3)))
        return len(translator.asked)

    assert [asked(number) for number in range(3)] == [8, 8, 8]
    (tmp_path / "9.wav").write_text("another sound")
    assert [asked(number) for number in range(3)] == [0, 8, 0]
    merge(job())
    assert (tmp_path / "out").read_text().split("\n")[9] == "dnuos rehtona@9"
    assert asked(1) == 0, "it is merged"
    (tmp_path / "20.wav").write_text("a third sound")
    assert [asked(number) for number in range(3)] == [8, 8, 8]


@pytest.mark.usefixtures("sounds")
def test_a_part_of_changed_recordings_that_is_being_made_again_is_missing(job, tmp_path, reading_class):
    for shard in shards(2):
        decode_file(reading_class(), job(shard=shard))
    (tmp_path / "9.wav").write_text("another sound")
    with pytest.raises(ConnectionError):
        decode_file(reading_class(breaks="another"), job(shard=Shard(1, 2)))
    with pytest.raises(UserError, match=r"missing: out.shard-00001-of-00002; make it with: --shard=1/2"):
        merge(job())


@pytest.mark.parametrize("then", ["the shard again", "merging"])
def test_a_shard_that_is_killed_at_its_very_end_leaves_nothing(job, tmp_path, translator, monkeypatch, then):
    """The output has its final name, but the record of its unfinished state still exists."""
    with monkeypatch.context() as patched:
        patched.setattr(PartialFile, "finish", finish_and_die)
        with pytest.raises(Killed):
            decode_file(translator, job(shard=Shard(0, 1)))
    assert (tmp_path / "out.shard-00000-of-00001.partial.json").exists()
    if then == "the shard again":
        decode_file(translator, job(shard=Shard(0, 1)))
        assert not (tmp_path / "out.shard-00000-of-00001.partial.json").exists()
    merge(job())
    assert leftovers(tmp_path) == [".out.merged.json", "out"]


def finish_and_die(output):
    """Does the same as `PartialFile.finish` up to its last line."""
    os.replace(output._partial, output._path)
    raise Killed


def test_what_an_earlier_merger_left_is_not_taken_for_another_job(
    job, tmp_path, translator, reverser_class, monkeypatch
):
    """The earlier output is complete, but the parts are from another model."""
    decode_file(translator, job(shard=Shard(0, 1)))
    with monkeypatch.context() as patched:
        patched.setattr(merging.Part, "remove", lambda part: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            merge(job())
    other = reverser_class(weights="others")
    with pytest.raises(ConnectionError):
        decode_file(reverser_class(weights="others", breaks="line 40"), job(shard=Shard(0, 1)))
    decode_file(other, job(shard=Shard(0, 1)))
    decode_file(other, job(target="one"))
    merge(job())
    assert (tmp_path / "out").read_bytes() == (tmp_path / "one").read_bytes()
    assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]


def test_a_full_disk_leaves_the_parts(job, tmp_path, translator, monkeypatch):
    for shard in shards(2):
        decode_file(translator, job(shard=shard))
    before = leftovers(tmp_path)

    def full(output, content, lines, notes):
        with atomic.os_errors_as_machine_errors("cannot write out.partial"):
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(merging.PartialFile, "write", full)
        with pytest.raises(MachineError, match=r"cannot write out.partial: No space left on device; free some space"):
            merge(job())
    assert leftovers(tmp_path) == before
    merge(job())
    assert (tmp_path / "out").read_bytes().count(b"\n") == 43


# === Mistakes ===


def test_missing_parts_are_named_with_the_command_that_makes_them(job, tmp_path, translator):
    for number in (0, 1, 3, 5):
        decode_file(translator, job(shard=Shard(number, 15)))
    target = tmp_path / "out"
    expected = (
        f"{target}: not all of its 15 parts can be merged, missing: out.shard-00002-of-00015, "
        f"out.shard-00004-of-00015, out.shard-00006-of-00015, ... (shards 2,4,6-14); make each of them, the first "
        f"with: t2t-decoder --shard=2/15"
    )
    with pytest.raises(UserError, match=f"^{re.escape(expected)}$"):
        merge_parts(job().source, str(target), "t2t-decoder --shard={}".format)
    for number in (2, *range(6, 15)):
        decode_file(translator, job(shard=Shard(number, 15)))
    with pytest.raises(UserError, match=r"missing: out.shard-00004-of-00015; make it with: --shard=4/15$"):
        merge(job())


def test_without_any_part_the_first_is_asked_for(job):
    with pytest.raises(
        UserError, match=r"out: there are no parts of it; make them first, e.g. .* with: --shard=0/100$"
    ):
        merge(job())


@pytest.mark.parametrize("change", [{"window": 4}, {"n_best": 2}, {"output_format": "tsv"}, {"weights": "others"}])
def test_parts_of_another_job_are_named(job, translator, reverser_class, change):
    for number in range(3):
        decode_file(translator, job(shard=Shard(number, 4)))
    other = reverser_class(weights=change.get("weights", "w"), longest_input=20)
    asked = job(
        shard=Shard(3, 4), **{name: value for name, value in change.items() if name not in ("window", "weights")}
    )
    if "window" in change:
        asked = Job(source=asked.source, target=asked.target, window=4, shard=asked.shard)
    decode_file(other, asked)
    expected = r"of another model or other settings than most: out.shard-00003-of-00004; make it with: --shard=3/4$"
    with pytest.raises(UserError, match=expected):
        merge(job())
    decode_file(translator, job(shard=Shard(3, 4)))
    assert merge(job()).lines == 43


def test_parts_of_another_input_are_named(job, tmp_path, translator):
    for shard in shards(2):
        decode_file(translator, job(shard=shard))
    (tmp_path / "in").write_bytes(b"one more\n" + (tmp_path / "in").read_bytes())
    expected = (
        r"of another input than .*in: out.shard-00000-of-00002, out.shard-00001-of-00002 \(shards 0-1\); make each of "
        r"them, the first with: --shard=0/2$"
    )
    with pytest.raises(UserError, match=expected):
        merge(job())


def test_what_was_merged_of_another_input_does_not_count(job, tmp_path, translator):
    decode_file(translator, job(shard=Shard(0, 1)))
    merge(job())
    (tmp_path / "in").write_bytes(b"one more\n" + (tmp_path / "in").read_bytes())
    with pytest.raises(UserError, match=r"out: there are no parts of it; make them first, e.g. .* with: --shard=0/100"):
        merge(job())
    decode_file(translator, job(shard=Shard(0, 1)))
    assert merge(job()).lines == 44


def test_parts_of_two_divisions_are_not_mixed(job, translator):
    for shard in (Shard(0, 2), Shard(0, 3)):
        decode_file(translator, job(shard=shard))
    expected = (
        r"out: parts of 2 and of 3 shards are next to it; remove those that are not wanted, such as .*out\.shard-\*"
    )
    with pytest.raises(UserError, match=expected):
        merge(job())


def test_two_mergers_are_not_at_work_at_once(job, tmp_path, translator):
    decode_file(translator, job(shard=Shard(0, 1)))
    with (
        atomic.open_locked(tmp_path / "out.partial"),
        pytest.raises(UserError, match=r"out.partial: another process is writing it; wait for it or write elsewhere"),
    ):
        merge(job())
