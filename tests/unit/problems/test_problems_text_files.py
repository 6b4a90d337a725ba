"""Pairs of text files: those that options name, and those that a problem names."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from t2t.files.lines import INVALID_UTF8
from t2t.problems.line_shards import every_shard
from t2t.problems.text_files import Text2TextFiles
from t2t.problems.translation import TranslationFiles
from tests.errors import refused
from tests.raw_files import write_files


@pytest.fixture
def samples(source):
    """Returns a function that returns the pairs of a split of a problem."""

    def draw(problem, split):
        problem.name = getattr(problem, "name", None) or "text2text_files"
        return [(sample["inputs"], sample["targets"]) for sample in problem.generate_samples(split, source)]

    return draw


# === Named by options ===


@pytest.fixture
def files(tmp_path):
    sizes = {"train": 3, "dev": 2, "test": 1}
    paths = {f"{split}_{side}": f"{split}.{side}" for split in sizes for side in ("source", "target")}
    texts = {name: [f"{name.replace('_', ' ')} {i}\n" for i in range(sizes[name.split("_")[0]])] for name in paths}
    write_files(tmp_path, {paths[name]: "".join(lines) for name, lines in texts.items()})
    return {name: str(tmp_path / path) for name, path in paths.items()}


def without(files, *left_out):
    return {key: path for key, path in files.items() if not key.startswith(left_out)}


def test_reads_the_files_that_the_options_name(files, samples):
    Path(files["dev_target"]).write_bytes(gzip.compress(b"zwei\ndrei\n"))
    problem = Text2TextFiles(**files, source_language="en", target_language="de")
    assert samples(problem, "train") == [(f"train source {i}", f"train target {i}") for i in range(3)]
    assert samples(problem, "dev") == [("dev source 0", "zwei"), ("dev source 1", "drei")]
    assert (problem.source_language, problem.target_language) == ("en", "de")
    assert problem.splits == ("train", "dev", "test")
    assert set(problem.options.file_names()) == {*files, "vocab_file", "train_scores"}


def test_a_test_set_is_optional(files, samples):
    problem = Text2TextFiles(**without(files, "test"))
    assert problem.splits == ("train", "dev")
    with refused("'test':", "text2text_files"):
        samples(problem, "test")


def test_options_are_remembered_as_json_with_absolute_paths(files, tmp_path, monkeypatch, samples):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    relative = without(files, "test") | {"train_source": "train.source", "dev_source": "~/dev.source"}
    options = json.loads(json.dumps(Text2TextFiles(**relative, vocab_size=300).options.changed()))
    assert options == without(files, "test") | {"vocab_size": 300}
    monkeypatch.chdir("/")
    assert len(samples(Text2TextFiles(**options), "train")) == 3


@pytest.mark.parametrize("left_out", ["train_target", "dev", "test_source", ("train", "dev")])
def test_flags_that_are_missing_are_named(files, left_out):
    given = without(files, *([left_out] if isinstance(left_out, str) else left_out))
    with refused("text2text_files:") as raised:
        Text2TextFiles(**given)
    missing = str(raised.value).partition("not given")[0]
    assert {flag for flag in files if f"--{flag}" in missing} == files.keys() - given.keys()


def test_without_any_flag_it_can_be_listed_but_not_generated(samples):
    problem = Text2TextFiles()
    assert problem.splits == ("train", "dev")
    assert problem.requirements().startswith("--train_source=FILE, --train_target=FILE")
    with refused("--train_source=FILE,"):
        samples(problem, "train")


def test_missing_files_are_named_together_and_unequal_ones(files, samples):
    problem = Text2TextFiles(**files)
    Path(files["train_source"]).write_text("1\n2\n3\n4\n")
    with refused(files["train_source"], 4, files["train_target"], 3):
        samples(problem, "train")
    for name in ("train_source", "test_target"):
        Path(files[name]).unlink()
    with refused(*(f"--{name}={files[name]}" for name in ("train_source", "test_target"))):
        samples(problem, "dev")


PAIRED = [
    ("part-1 part-2 part-10", "part-*", "part-1 part-10 part-2"),
    ("euro euro.filtered", "euro*", "euro euro.filtered"),  # whose full names sort differently, as "e" < "fi" < "fr"
    ("a-1.x a-2.x b-1.x", "?-[12].x", "a-1.x a-2.x b-1.x"),
    ("a1/t a2/t", "a?/*", "a1/t a2/t"),
    ("[1]-a [1]-b", "[[]1]-*", "[1]-a [1]-b"),
    ("b2 b1 c", "c,b*", "c b1 b2"),
    ("a b", "[ab]", "a b"),
]


@pytest.mark.parametrize(("stems", "pattern", "expected"), PAIRED)
def test_files_of_patterns_are_paired_by_what_the_wildcards_match(tmp_path, source, caplog, stems, pattern, expected):
    caplog.set_level("INFO", "t2t")
    sides = {"train_source": "en", "train_target": "fr", "train_scores": "txt"}
    write_files(tmp_path, {f"{stem}.{end}": "1\n" for stem in stems.split() for end in sides.values()})
    named = {side: ",".join(f"{tmp_path}/{each}.{end}" for each in pattern.split(",")) for side, end in sides.items()}
    problem = Text2TextFiles(**named, dev_source=f"{tmp_path}/en", dev_target=f"{tmp_path}/fr")
    pairs = [tuple(tmp_path / f"{stem}.{end}" for end in sides.values()) for stem in expected.split()]
    assert problem.files_of("train") == pairs
    every_shard(problem.files_of("train"), "train", source)
    logged = [record.getMessage() for record in caplog.records]
    assert [[str(path) in line for path in pair] for line, pair in zip(logged, pairs, strict=True)] == [
        [True] * 3
    ] * len(pairs)


@pytest.mark.parametrize(
    ("source_pattern", "target_pattern", "scores", "about"),
    [
        ("part-*.en", "part-*.de", "", ("part-2.en", "part-3.de")),
        ("part-?.en", "part-[0-9]*.de", "", ("part-2.en", "part-3.de")),
        ("part-[12].en", "part-[13].de", "", ("part-2.en", "part-3.de")),
        ("part-*.en", "part-*.en", "part-*.de", ("part-2.en", "part-3.de")),
        ("x,part-2*en", "y,part-*.de", "", ("part-2.en", "part-1.de")),
        ("part-2*.en", "part-*.de", "", ("part-2.en", "part-1.de")),  # the first matches an empty text
        ("part-*.en", "part-[13].de", "", ("part-2.en", "part-3.de")),
        ("part-2.e*", "part-2.*", "", ("part-2.en", "part-2.en")),
    ],
)
def test_patterns_whose_wildcards_match_otherwise_are_refused(tmp_path, source_pattern, target_pattern, scores, about):
    write_files(
        tmp_path, dict.fromkeys([*(f"part-{n}.en" for n in (1, 2, 3)), *(f"part-{n}.de" for n in (1, 3, 4))], "1\n")
    )
    given = {"train_source": source_pattern, "train_target": target_pattern, "train_scores": scores}
    named = {side: ",".join(f"{tmp_path}/{each}" for each in given[side].split(",")) for side in given if given[side]}
    with refused("text2text_files", "--train_source", *about):
        Text2TextFiles(**named, dev_source="a.en", dev_target="a.de")


def test_a_pattern_may_go_with_files_that_are_named(tmp_path):
    write_files(tmp_path, dict.fromkeys(("1.en", "2.en", "x.de", "y.de"), "1\n"))
    named = {"train_source": f"{tmp_path}/*.en", "train_target": f"{tmp_path}/y.de,{tmp_path}/x.de"}
    problem = Text2TextFiles(**named, dev_source="a.en", dev_target="a.de")
    assert [[path.name for path in sides] for sides in problem.files_of("train")] == [
        ["1.en", "y.de"],
        ["2.en", "x.de"],
    ]


def test_vocabulary_is_learnt_from_both_sides(files, source):
    encoders = Text2TextFiles(**files, vocab_kind="token").build_encoders(source)
    assert encoders["inputs"] is encoders["targets"]
    assert sorted(encoders["inputs"].piece(i) for i in range(3, 9)) == ["0", "1", "2", "source", "target", "train"]


# === Named by a problem ===


class News(TranslationFiles):
    name = "news"
    source_language, target_language = "nl", "sv"
    home = "the archive"
    split_files = {"dev": ("dev.nl", "dev.sv"), "train": ("train.nl.gz", "train.sv.gz")}


class Both(News):
    split_files = {"train": ("train.nl", "train.sv", "dev.nl", "dev.sv")}


FILES = {
    "train.nl": "een\ntwee\n", "train.sv.gz": gzip.compress("ett\ntvå\n".encode()),
    "dev.nl.gz": gzip.compress(b"drie\n"), "dev.sv": "tre\n",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "changes", "split", "expected"),
    [
        (News, {}, "train", [("een", "ett"), ("twee", "två")]),
        (News, {}, "dev", [("drie", "tre")]),
        (News, {"dev.nl": "vier\n"}, "dev", [("vier", "tre")]),  # the name as it stands comes first
        (News, {"dev.sv": b"tr\xff\n"}, "dev", [("drie", "tr\ufffd")]),
        (Both, {}, "train", [("een", "ett"), ("twee", "två"), ("drie", "tre")]),
    ],
)
def test_files_are_found_with_and_without_gz(tmp_path, samples, source, kind, changes, split, expected):
    write_files(tmp_path, FILES | changes)
    assert samples(kind(), split) == expected
    assert source.tally == Counter({INVALID_UTF8: 1} if "\ufffd" in str(expected) else {})


def test_all_missing_files_are_named_at_once_with_where_they_come_from(tmp_path, samples):
    write_files(tmp_path, FILES | {"dev.sv": "tre\nfyra\n"})
    with refused(tmp_path / "dev.nl.gz", 1, tmp_path / "dev.sv", 2):
        samples(News(), "dev")
    (tmp_path / "dev.sv").unlink()
    with refused("news:", 1, 4, "dev.sv;"):
        samples(Both(), "train")
    (tmp_path / "train.nl").unlink()
    with refused("news:", tmp_path, 2, 4, "train.nl.gz,", "dev.sv;", "--tmp_dir;", "archive"):
        samples(News(), "dev")
    assert News().requirements() == (
        "train.nl.gz, train.sv.gz, dev.nl, dev.sv (with or without .gz) in --tmp_dir; from the archive"
    )


def test_splits_are_those_with_files(samples):
    assert News.splits == ("train", "dev")
    with refused("'test':", "news", "train,", "dev;"):
        samples(News(), "test")
