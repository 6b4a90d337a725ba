"""Filters of training samples, from the options of a problem to the finished data."""

import gzip
from collections import Counter

import pytest

from t2t.data.generation.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.problems.text_files import Text2TextFiles
from tests.errors import refused
from tests.generated import texts

DEV = [(f"dev {n}", "") for n in range(3)]


@pytest.fixture
def write(tmp_path):
    """Writes lines and returns the path of their file."""

    def lines(name, texts):
        content = "".join(f"{text}\n" for text in texts).encode()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return str(tmp_path / name)

    return lines


@pytest.fixture
def files(write):
    """Options that name two files of 40 pairs each, `one 0` and `eins 0`, ..., and three unfit dev pairs."""
    pairs = {"one": "eins", "two": "zwei"}
    paths = [[write(name, [f"{name} {n}" for n in range(40)]) for name in pair] for pair in pairs.items()]
    sources, targets = (",".join(side) for side in zip(*paths, strict=True))
    dev = [write(f"dev.{side}", texts) for side, texts in zip("st", zip(*DEV, strict=True), strict=True)]
    return {
        "train_source": sources, "train_target": targets, "dev_source": dev[0], "dev_target": dev[1],
        "vocab_kind": "byte",
    }  # fmt: skip


def made(tmp_path, options, name="data", workers=1, seed=0, shard_lines=None):
    """Generates data; returns the record of the training split and its texts."""
    problem = type("InShards", (Text2TextFiles,), {"_shard_lines": shard_lines, "name": "text2text_files"})(**options)
    generate(problem, tmp_path / name, tmp_path, workers=workers, seed=seed, most_examples=15)  # joins no files
    folder = tmp_path / name / "text2text_files"
    return read_manifest(folder).split("train"), texts(folder, "train")


def pairs_of(*numbers):
    """Returns training pairs by their indices in the corpus."""
    return [(f"one {n}", f"eins {n}") if n < 40 else (f"two {n - 40}", f"zwei {n - 40}") for n in numbers]


def with_scores(files, write, scores, ending=""):
    paths = [write(f"scores{n}{ending}", part) for n, part in enumerate((scores[:40], scores[40:]))]
    return files | {"train_scores": ",".join(paths)}


SCORES = [round((7 * n % 80) / 80, 4) for n in range(80)]
GOOD = [n for n, score in enumerate(SCORES) if score >= 0.9]


@pytest.mark.parametrize("shard_lines", [None, 7])
@pytest.mark.parametrize(("scores", "ending", "options"), [
    (SCORES, "", {}),
    (SCORES, ".gz", {}),
    ([f"http://a\t{score}\t{pair}" for pair, score in enumerate(SCORES)], "", {"train_score_column": 2}),
], ids=["plain", "gzip", "a column of a table"])  # fmt: skip
def test_pairs_with_a_low_score_are_dropped(tmp_path, files, write, shard_lines, scores, ending, options):
    options = with_scores(files, write, scores, ending) | {"filter_min_score": 0.9, **options}
    record, found = made(tmp_path, options, shard_lines=shard_lines)
    assert found == pairs_of(*GOOD)
    assert (len(record.shards) > 4) == (shard_lines == 7 and not ending)
    assert record.dropped == {"with a score below 0.9": 80 - len(GOOD)}


@pytest.mark.parametrize("shard_lines", [None, 7])
@pytest.mark.parametrize(("scores", "ending", "about"), [
    ([*SCORES[:70], "high", *SCORES[71:]], "", ("scores1", 31, "'high'")),
    *(([0.5] * (40 + count), ending, ("two", 40, f"scores1{ending}", count))
      for count in (39, 42) for ending in ("", ".gz")),
])  # fmt: skip
def test_a_wrong_score_and_other_numbers_of_scores_are_named_by_file(
    tmp_path, files, write, shard_lines, scores, ending, about
):
    with refused(*about):
        made(tmp_path, with_scores(files, write, scores, ending), shard_lines=shard_lines)


def test_there_must_be_scores_and_weights_for_each_file(tmp_path, files, write):
    with refused("--train_source", "--train_scores", 2, 1):
        made(tmp_path, files | {"train_scores": write("scores", SCORES)})
    with refused(f"--train_scores={tmp_path}/none"):
        made(tmp_path, files | {"train_scores": f"{write('scores', SCORES)},{tmp_path}/none"})
    with refused("--train_weights=1", 2, "one", "two"):
        made(tmp_path, files | {"train_weights": "1"})
    for name, value in (("filter_min_score", 0.5), ("train_score_column", 2)):
        with refused(f"--{name}={value}", "--train_scores"):
            Text2TextFiles(**files, **{name: value})


def test_filters_make_other_data(tmp_path, files, write):
    options = with_scores(files, write, SCORES) | {"filter_min_score": 0.9}
    made(tmp_path, options)
    manifest = read_manifest(tmp_path / "data" / "text2text_files")
    assert manifest.options["filter_min_score"] == 0.9
    assert {"train_scores 1", "train_scores 2"} < set(manifest.raw_files)
    with refused("filter_min_score", 0.8, 0.9):
        made(tmp_path, options | {"filter_min_score": 0.8})
    with refused("filter_min_words", 2):
        made(tmp_path, options | {"filter_min_words": 2})


def test_dev_is_whole_whatever_the_filters(tmp_path, files):
    record, _ = made(tmp_path, files | {"train_weights": "2,1", "filter_letters": 0.7, "filter_duplicates": "source"})
    assert set(record.dropped) == {"with less than 0.7 letters"}
    assert record.repeated
    assert texts(tmp_path / "data" / "text2text_files", "dev") == DEV


def test_a_sample_is_counted_under_the_first_filter_that_drops_it(tmp_path, files, write, log_lines):
    options = with_scores(files, write, SCORES) | {"filter_min_score": 0.5, "filter_length_ratio": 1.18}
    record, found = made(tmp_path, options)
    good = [n for n in range(80) if SCORES[n] >= 0.5]
    # `one 7` and `eins 7` have 5 and 6 characters, `one 17` and `eins 17` 6 and 7.
    kept = [n for n in good if n % 40 >= 10]
    assert found == pairs_of(*kept)
    ratio, score = len(good) - len(kept), 80 - len(good)
    assert record.dropped == {"with a length ratio above 1.18": ratio, "with a score below 0.5": score}
    assert f"{80 - len(kept)} dropped ({ratio} with a length ratio above 1.18, {score} with a score below 0.5)" in (
        log_lines.text
    )


def test_what_filters_drop_is_not_unfit_unless_it_is_everything(tmp_path, files, write):
    """Of 80 pairs 72 are filtered, and some of the other 8 have an empty side, which makes them unfit."""
    with refused("'train'", "text2text_files", 80, 3, "(--filter_...)"):
        made(tmp_path, files | {"filter_min_words": 3})
    options = with_scores(files, write, SCORES) | {"filter_min_score": 0.9}
    for unfit in (3, 5):
        lines = ["" if n in GOOD[:unfit] else f"one {n}" for n in range(40)]
        more = ["" if n + 40 in GOOD[:unfit] else f"two {n}" for n in range(40)]
        options["train_source"] = f"{write('one', lines)},{write('two', more)}"
        if unfit == 3:
            assert made(tmp_path, options)[0].examples == 8 - unfit
    with refused(5, 8, 77, 72, 0.9, "(--filter_...)"):
        made(tmp_path, options, "other")


def test_the_vocabulary_is_learnt_from_what_filters_keep(tmp_path, files, write):
    options = with_scores(files, write, [1] * 40 + [0] * 40) | {"filter_min_score": 0.5, "vocab_kind": "token"}
    made(tmp_path, options)
    folder = tmp_path / "data" / "text2text_files"
    encoder = load_encoders(folder, read_manifest(folder))["inputs"]
    pieces = {encoder.piece(number) for number in range(3, encoder.vocab_size)}
    assert {"one", "eins", "39"} < pieces
    assert not {"two", "zwei"} & pieces


@pytest.mark.parametrize("shard_lines", [None, 7])
def test_files_are_taken_by_their_weights(tmp_path, files, shard_lines, log_lines):
    record, found = made(tmp_path, files | {"train_weights": "3,0.5"}, shard_lines=shard_lines)
    counts = Counter(found)
    assert list(dict.fromkeys(found)) == pairs_of(*range(40), *(n for n in range(40, 80) if counts[pairs_of(n)[0]]))
    assert {counts[pair] for pair in pairs_of(*range(40))} == {3}
    assert {counts[pair] for pair in pairs_of(*range(40, 80))} == {0, 1}
    dropped = record.dropped["not taken by weight"]
    assert 8 <= dropped <= 32  # 4 standard deviations around 20
    assert (record.repeated, record.examples) == (80, 160 - dropped)
    assert f"{dropped} not taken by weight" in log_lines.text
    options = files | {"train_weights": "3,0.5"}
    assert made(tmp_path, options, "again", workers=2, shard_lines=shard_lines) == (record, found)
    assert made(tmp_path, options, "other", seed=1, shard_lines=shard_lines)[1] != found


def test_copies_by_weight_are_no_duplicates(tmp_path, files, write):
    options = files | {"train_source": f"{write('a', 'xyx')},{write('b', 'xz')}"}
    options["train_target"] = f"{write('c', 'xyx')},{write('d', 'xz')}"
    record, found = made(tmp_path, options | {"train_weights": "2,1", "filter_duplicates": "pair"})
    assert found == [("x", "x"), ("x", "x"), ("y", "y"), ("y", "y"), ("z", "z")]
    assert (record.dropped, record.repeated) == ({"duplicates": 2}, 2)


@pytest.mark.parametrize("shard_lines", [None, 1])
@pytest.mark.parametrize(("sides", "options", "expected"), [
    ("ab cd", {}, {("x", "a"): 1, ("y", "b"): 1, ("x", "c"): 3, ("y", "d"): 3}),
    ("ab ab", {"filter_min_score": 1}, {("x", "a"): 3, ("y", "b"): 4}),
])  # fmt: skip
def test_two_translations_of_one_source_and_two_files_of_scores_of_one_pair_have_weights_of_their_own(
    tmp_path, files, write, shard_lines, sides, options, expected
):
    paths = {"train_source": ("xy", "xy"), "train_target": sides.split()}
    if options:
        paths["train_scores"] = ("01", "23")
    named = {name: ",".join(write(f"{name}-{text}", text) for text in texts) for name, texts in paths.items()}
    _, found = made(tmp_path, files | named | options | {"train_weights": "1,3"}, shard_lines=shard_lines)
    assert Counter(found) == expected


def test_a_pair_of_files_with_two_weights_is_refused(tmp_path, files, write):
    source, target, other = write("source", "xy"), write("target", "ab"), write("other", "cd")
    options = {"train_source": (source, source, source), "train_target": (target, other, target)}
    options = files | {name: ",".join(paths) for name, paths in options.items()}
    with refused("--train_weights=1,1,3", "source", "target"):
        made(tmp_path, options | {"train_weights": "1,1,3"})
    _, found = made(tmp_path, options)
    assert Counter(found) == {("x", "a"): 2, ("y", "b"): 2, ("x", "c"): 1, ("y", "d"): 1}
