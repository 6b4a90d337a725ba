"""Shards of a file are whole windows; merging them gives byte for byte the file of one machine, whatever was killed."""

import contextlib
import gzip
import itertools
import os
import random
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import MachineError
from t2t.files import atomic
from t2t.files.trust import read_sealed, write_sealed
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.scoring import score_file
from t2t.inference.files.shards import Shard, check_sharded, index_paths, merge_parts, parse_shard
from t2t.inference.files.windows import FileJob
from tests.audit import Killed, killed_after
from tests.errors import refused
from tests.reverser import FileReverser, Reverser

LINES = [f"line {n}".encode() if n % 7 else b"  " for n in range(1, 44)]
LINES[4], LINES[20], LINES[33] = b"much too long for this model", b"n\x00ul", b"\xff and a \r inside"
LINES[41] = b"too long, and in the last window"
WINDOWS = 6
"""Number of windows of eight lines; the last one has three."""
MERGED = [".out.merged.json", "out"]


@pytest.fixture
def job(tmp_path):
    (tmp_path / "in").write_bytes(b"\n".join(LINES) + b"\n")
    (tmp_path / "in.gz").write_bytes(gzip.compress(b"\n".join(LINES)))
    (tmp_path / "prefixes").write_text("".join(f"begin {n}\n" if n % 3 else "\n" for n in range(1, 44)))
    (tmp_path / "pairs").write_bytes(b"".join(b"source\t%s\n" % line for line in LINES))

    def make(kind=Job, source="in", target="out", window=8, **changes):
        return kind(source=str(tmp_path / source), target=str(tmp_path / target), window=window, **changes)

    return make


@pytest.fixture
def decode(job):
    """Returns a function that decodes with a Reverser, which it returns with the report."""

    def run(shard=None, reverser=None, **changes):
        reverser = reverser or Reverser(longest_input=20)
        return reverser, decode_file(reverser, job(shard=shard, **changes))

    return run


@pytest.fixture
def decode_shards(decode):
    """Returns a function that decodes the shards of a file in random order."""

    def run(count, numbers=None, **changes):
        numbers = list(range(count) if numbers is None else numbers)
        random.Random(count).shuffle(numbers)
        for number in numbers:
            decode(Shard(number, count), **changes)

    return run


def merge(job):
    return merge_parts(job.source, job.target)


def leftovers(folder):
    return sorted(set(os.listdir(folder)) - {"in", "in.gz", "prefixes", "pairs"})


def part(number, count):
    return f"out.shard-{number:05d}-of-{count:05d}"


def same(folder):
    return (folder / "out").read_bytes() == (folder / "one").read_bytes()


# === The file of one machine ===
@pytest.mark.parametrize(
    ("count", "options"),
    [
        (1, {}), (2, {"n_best": 3, "output_format": "jsonl"}), (4, {"n_best": 2, "output_format": "tsv"}),
        (WINDOWS, {"source": "in.gz"}), (15, {"changes": {"alignments": True, "seed": 3}}), (4, {}),
    ],
)  # fmt: skip
def test_merged_shards_are_the_file_of_one_machine(job, decode, decode_shards, tmp_path, options, count):
    _, one = decode(target="one", **options)
    decode_shards(count, **options)
    assert not (tmp_path / "out").exists()
    for path in index_paths(str(tmp_path / "out")):
        path.touch()
    merged = merge(job(**options))
    assert same(tmp_path)
    assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]
    assert merged.lines == one.lines == 43
    assert merged.tokens == one.tokens
    assert merged.warnings("21 ids") == one.warnings("21 ids")
    assert (merged.cut.count, merged.cut.first) == (2, [5, 42])


def test_each_line_has_its_beginning_in_whichever_shard_it_is(job, decode_shards, tmp_path):
    begun = {}

    class Beginner(Reverser):
        def translate_ids(self, sentences, n_best=1, *, prefixes=None, **others):
            begun.update(zip(others["seeds"], ["".join(map(chr, prefix)) for prefix in prefixes], strict=True))
            return super().translate_ids(sentences, n_best, **others)

    decode_shards(4, reverser=Beginner(), prefixes=str(tmp_path / "prefixes"))
    begins = (tmp_path / "prefixes").read_text().split("\n")
    assert begun == {place: begins[place] for place, line in enumerate(LINES) if line.strip()}
    merge(job())
    assert leftovers(tmp_path) == MERGED


def test_another_number_of_beginnings_is_refused(decode, tmp_path):
    (tmp_path / "prefixes").write_text("a\n")
    with refused(tmp_path / "prefixes", 1, tmp_path / "in", 43):
        decode(Shard(2, 3), prefixes=str(tmp_path / "prefixes"))


def test_scores_of_shards_are_those_of_the_file(job, tmp_path):
    score_file(Reverser(longest_input=20), job(FileJob, "pairs", "one"))
    for number in (2, 0, 3, 1):
        score_file(Reverser(longest_input=20), job(FileJob, "pairs", shard=Shard(number, 4)))
    assert merge(job(FileJob, "pairs")).verb == "scored"
    assert same(tmp_path)
    assert b"nan" in (tmp_path / "out").read_bytes()


def test_a_line_without_its_columns_is_told_by_its_number_in_the_file(job, tmp_path):
    (tmp_path / "pairs").write_bytes((tmp_path / "pairs").read_bytes() + b"no columns\n")
    score_file(Reverser(), job(FileJob, "pairs", shard=Shard(0, 2)))
    with refused(tmp_path / "pairs", 44, 1, 2, "TAB"):
        score_file(Reverser(), job(FileJob, "pairs", shard=Shard(1, 2)))


def test_a_shard_without_lines_says_so(decode, tmp_path, caplog):
    caplog.set_level("INFO", logger="t2t")
    decode(Shard(0, 15))
    assert f"shard 0/15 is empty: {tmp_path}/in has 6 windows of 8 lines" in caplog.messages
    assert (tmp_path / part(0, 15)).read_bytes() == b""


def test_an_empty_file_is_merged_to_an_empty_file(job, decode_shards, tmp_path):
    (tmp_path / "in").write_bytes(b"")
    decode_shards(2)
    assert merge(job()).lines == 0
    assert (tmp_path / "out").read_bytes() == b""
    assert leftovers(tmp_path) == MERGED


# === Interruption ===
def test_a_stopped_shard_goes_on_and_a_finished_one_is_not_made_again(job, decode, tmp_path, caplog):
    caplog.set_level("INFO", logger="t2t")
    _, one = decode(target="one")
    with pytest.raises(ConnectionError):
        decode(Shard(1, 2), Reverser(longest_input=20, breaks="line 40"))
    assert {"one", f"{part(1, 2)}.partial", f"{part(1, 2)}.partial.json"} <= set(leftovers(tmp_path))
    last, report = decode(Shard(1, 2))
    assert "resuming after line 32 of an interrupted attempt" in caplog.messages
    assert last.asked[0] == "line 33"
    assert (report.lines, report.done) == (43, 11)
    again, repeated = decode(Shard(1, 2))
    assert again.asked == []
    assert f"{tmp_path}/{part(1, 2)} is there already" in caplog.messages
    assert (repeated.done, repeated.tokens, repeated.repaired) == (0, report.tokens, report.repaired)
    decode(Shard(0, 2))
    merged = merge(job())
    assert same(tmp_path)
    assert merged.tokens == one.tokens, "of both attempts"
    assert merged.warnings("") == one.warnings("")
    again, _ = decode(Shard(0, 2))
    assert again.asked == [], "nor after the merger"
    assert f"{tmp_path}/out is there already" in caplog.messages
    assert not (tmp_path / part(0, 2)).exists()


def test_a_damaged_part_is_made_again(job, decode, decode_shards, tmp_path):
    decode(target="one")
    decode_shards(2)
    damaged = tmp_path / part(1, 2)
    damaged.write_bytes(damaged.read_bytes().replace(b"enil", b"ENIL", 1))
    with refused(damaged, "--shard=1/2"):
        merge(job())
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()
    decode(Shard(1, 2))
    merge(job())
    assert same(tmp_path)


EARLIER = {
    "format": 1, "source": "", "fingerprint": "", "verb": "decoded", "before": 24, "lines": 19, "size": 0, "sha256": "",
    "counted": {
        "tokens": 9, "replaced": 0, "repaired_outputs": 0, "cut": {"count": 1, "first": [42]},
        "cut_outputs": {"count": 0, "first": []}, "unscored": {"count": 0, "first": []},
    },
    "repaired": {"NULs": 2},
}  # fmt: skip
"""The record of a part, as versions wrote it before parts and unfinished outputs had one form of record."""


def test_a_part_of_an_earlier_version_is_merged(job, decode, decode_shards, tmp_path):
    decode(target="one")
    decode_shards(2)
    record_path = tmp_path / f"{part(1, 2)}.json"
    record = read_sealed(record_path)
    kept = {"source": record["notes"]["source"], "size": record["bytes"]}
    write_sealed(record_path, EARLIER | kept | {name: record[name] for name in ("fingerprint", "sha256")})
    again, _ = decode(Shard(1, 2))
    assert again.asked == []
    merged = merge(job())
    assert same(tmp_path)
    assert (merged.lines, merged.cut.first, merged.repaired["NULs"]) == (43, [5, 42], 2)


def test_a_merger_that_is_killed_goes_on(job, decode, decode_shards, tmp_path):
    """It is killed before each rename and each removal in turn."""
    decode(target="one")
    decode_shards(3)
    parts = {path: path.read_bytes() for path in tmp_path.glob("out.shard-*")}
    for changes in itertools.count():
        for path, content in parts.items():
            path.write_bytes(content)
        with contextlib.suppress(Killed), killed_after(changes):
            merge(job())
            break
        assert merge(job()).lines == 43
        assert same(tmp_path)
        assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]
        assert merge(job()).lines == 43, "again, where there is nothing left to do"
        for merged in MERGED:
            (tmp_path / merged).unlink()
    assert changes > 2 + 2 * 3, "two files written, and three parts removed, with their records"


@pytest.mark.parametrize("then", ["the shard again", "merging"])
def test_a_shard_that_is_killed_leaves_nothing(job, decode, tmp_path, then):
    """At the very end the output has its final name, but the record of its unfinished state still exists."""
    name, states = part(0, 1), []
    decode(target="one")
    for changes in itertools.count():
        with contextlib.suppress(Killed), killed_after(changes):
            decode(Shard(0, 1))
            break
        states.append((tmp_path / name).exists() and (tmp_path / f"{name}.partial.json").exists())
        if then == "the shard again" or not states[-1]:
            decode(Shard(0, 1))
            assert not (tmp_path / f"{name}.partial.json").exists()
        merge(job())
        assert same(tmp_path)
        assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]
        for merged in MERGED:
            (tmp_path / merged).unlink()
    assert any(states)


def test_what_an_earlier_merger_left_is_not_taken_for_another_job(job, decode, tmp_path):
    """The earlier output is complete, but the parts are from another model."""
    decode(Shard(0, 1))
    changes = itertools.count()
    while not (tmp_path / "out").exists():
        with pytest.raises(Killed), killed_after(next(changes)):
            merge(job())
    with pytest.raises(ConnectionError):
        decode(Shard(0, 1), Reverser(weights="others", breaks="line 40"))
    decode(Shard(0, 1), Reverser(weights="others"))
    decode(target="one", reverser=Reverser(weights="others"))
    merge(job())
    assert same(tmp_path)
    assert leftovers(tmp_path) == [".out.merged.json", "one", "out"]


def test_a_full_disk_leaves_the_parts(job, decode_shards, tmp_path):
    decode_shards(2)
    before, limits = leftovers(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # bytes of a file, fewer than there are
    try:
        with refused("out.partial", by=MachineError):
            merge(job())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert leftovers(tmp_path) == before
    merge(job())
    assert (tmp_path / "out").read_bytes().count(b"\n") == 43


# === Recordings ===
@pytest.fixture
def sounds(job, tmp_path):
    """The input is a list of 24 recordings, three windows."""
    for n in range(24):
        (tmp_path / f"{n}.wav").write_text(f"sound {n}")
    (tmp_path / "in").write_text("".join(f"{n}.wav\n" for n in range(24)))


@pytest.mark.usefixtures("sounds")
def test_a_shard_is_made_again_if_a_recording_that_it_names_has_changed(job, decode, tmp_path):
    def asked(*numbers):
        return [len(decode(Shard(number, 3), FileReverser())[0].asked) for number in numbers]

    assert asked(0, 1, 2) == [8, 8, 8]
    (tmp_path / "9.wav").write_text("another sound")
    assert asked(0, 1, 2) == [0, 8, 0]
    merge(job())
    assert (tmp_path / "out").read_text().split("\n")[9] == "dnuos rehtona@9"
    assert asked(1) == [0], "it is merged"
    (tmp_path / "20.wav").write_text("a third sound")
    assert asked(0, 1, 2) == [8, 8, 8]


@pytest.mark.usefixtures("sounds")
def test_a_part_of_changed_recordings_that_is_being_made_again_is_missing(job, decode, decode_shards, tmp_path):
    decode_shards(2, reverser=FileReverser())
    (tmp_path / "9.wav").write_text("another sound")
    with pytest.raises(ConnectionError):
        decode(Shard(1, 2), FileReverser(breaks="another"))
    with refused(part(1, 2), "--shard=1/2"):
        merge(job())


# === Mistakes ===
def test_missing_parts_are_named_with_the_command_that_makes_them(job, decode_shards, tmp_path):
    with refused(tmp_path / "out", "--shard=0/100"):
        merge(job())
    decode_shards(15, [0, 1, 3, 5])
    with refused(
        tmp_path / "out", 15, *[part(number, 15) for number in (2, 4, 6)], "2,4,6-14", "t2t-decoder", "--shard=2/15"
    ):
        merge_parts(job().source, str(tmp_path / "out"), "t2t-decoder --shard={}".format)
    decode_shards(15, [2, *range(6, 15)])
    with refused(part(4, 15), "--shard=4/15") as raised:
        merge(job())
    assert str(raised.value).count("out.shard-") == 1


@pytest.mark.parametrize("change", [{"window": 4}, {"n_best": 2}, {"output_format": "tsv"}, {"weights": "others"}])
def test_parts_of_another_job_are_named(job, decode, decode_shards, change):
    decode_shards(4, range(3))
    other = Reverser(longest_input=20, weights=change.pop("weights", "w"))
    decode(Shard(3, 4), other, **change)
    with refused(part(3, 4), "--shard=3/4"):
        merge(job())
    decode(Shard(3, 4))
    assert merge(job()).lines == 43


@pytest.mark.parametrize("is_merged", [False, True])
def test_parts_and_outputs_of_another_input_do_not_count(job, decode_shards, tmp_path, is_merged):
    decode_shards(2)
    if is_merged:
        merge(job())
    (tmp_path / "in").write_bytes(b"one more\n" + (tmp_path / "in").read_bytes())
    about = ["--shard=0/100"] if is_merged else [tmp_path / "in:", part(0, 2), part(1, 2), "0-1", "--shard=0/2"]
    with refused(tmp_path / "out", *about):
        merge(job())
    decode_shards(2)
    assert merge(job()).lines == 44


def test_parts_of_two_divisions_are_not_mixed(job, decode, tmp_path):
    for count in (2, 3):
        decode(Shard(0, count))
    with refused(2, 3, tmp_path / "out.shard-*"):
        merge(job())


def test_two_mergers_are_not_at_work_at_once(job, decode, tmp_path):
    decode(Shard(0, 1))
    with atomic.open_locked(tmp_path / "out.partial"), refused("out.partial"):
        merge(job())


# === Every line is in exactly one shard ===
@given(total=st.integers(0, 500), window=st.integers(1, 40), count=st.integers(1, 60))
def test_every_line_is_in_one_shard_and_no_window_is_cut(total, window, count):
    ranges = [Shard(number, count).lines(total, window) for number in range(count)]
    assert list(itertools.chain(*ranges)) == list(range(total))
    windows = [-(-len(lines) // window) for lines in ranges]
    assert max(windows) - min(windows) <= 1
    assert all(lines.start % window == 0 or lines.start == total for lines in ranges)


def test_a_shard_is_written_as_a_fraction():
    assert parse_shard("3/100") == Shard(3, 100)
    assert str(Shard(3, 100)) == "3/100"


@pytest.mark.parametrize("text", ["", "3", "3/", "/3", "a/b", "-1/3", "1/3/5", "1.0/2", "\u0663/4", "9" * 5000 + "/3"])
def test_what_is_written_otherwise_is_refused(text):
    with refused(f"'{text[:40]}'", "K/N", "0/100") as raised:
        parse_shard(text)
    assert len(str(raised.value)) < 200


@pytest.mark.parametrize("text", ["3/3", "0/0", "5/2", "0/100000"])
def test_there_are_no_other_shards(text):
    with refused(text, "K/N", "0/100"):
        parse_shard(text)


@pytest.mark.parametrize(
    ("source", "target"), [("-", "out"), ("pipe", "out"), ("in", "-"), ("in", "/dev/null"), ("in", "gone/out")]
)
def test_streams_are_not_divided(tmp_path, source, target):
    (tmp_path / "in").write_text("a\n")
    os.mkfifo(tmp_path / "pipe")
    paths = [name if name == "-" else str(tmp_path / name) for name in (source, target)]
    with refused(*[name for name in paths if name not in ("-", f"{tmp_path}/in", f"{tmp_path}/out")]):
        check_sharded(*paths)
