"""Filters of training samples, from the options of a problem to the finished data."""

import gzip
from collections import Counter

import pytest

from t2t.data.generate import generate
from t2t.data.manifest import load_encoders, read_manifest
from t2t.errors import UserError
from t2t.problems import line_shards
from t2t.problems.text_files import Text2TextFiles
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


def made(tmp_path, options, name="data", workers=1, seed=0):
    """Generates data; returns the record of the training split and its texts."""
    problem = Text2TextFiles(**options)
    problem.name = "text2text_files"
    generate(problem, tmp_path / name, tmp_path, workers=workers, seed=seed)
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


@pytest.mark.parametrize("shard_bytes", [1 << 20, 60])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_pairs_with_a_low_score_are_dropped(tmp_path, files, write, monkeypatch, shard_bytes, ending):
    monkeypatch.setattr(line_shards, "SHARD_BYTES", shard_bytes)
    options = with_scores(files, write, SCORES, ending) | {"filter_min_score": 0.9}
    record, found = made(tmp_path, options)
    assert found == pairs_of(*GOOD)
    assert (len(record.shards) > 4) == (shard_bytes == 60 and not ending)
    assert record.dropped == {"with a score below 0.9": 80 - len(GOOD)}


def test_scores_may_stand_in_a_column_of_a_table(tmp_path, files, write):
    table = [f"http://a\t{score}\t{pair}" for score, pair in zip(SCORES, range(80), strict=True)]
    options = with_scores(files, write, table) | {"filter_min_score": 0.9, "train_score_column": 2}
    assert made(tmp_path, options)[1] == pairs_of(*GOOD)


@pytest.mark.parametrize("shard_bytes", [1 << 20, 60])
def test_a_wrong_score_is_named_by_file_and_line(tmp_path, files, write, monkeypatch, shard_bytes):
    monkeypatch.setattr(line_shards, "SHARD_BYTES", shard_bytes)
    scores = [*SCORES[:70], "high", *SCORES[71:]]
    with pytest.raises(UserError, match=r"scores1, line 31, has 'high' where a score is asked for"):
        made(tmp_path, with_scores(files, write, scores))


@pytest.mark.parametrize("shard_bytes", [1 << 20, 60])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("count", [39, 42])
def test_there_must_be_a_score_for_each_pair(tmp_path, files, write, monkeypatch, shard_bytes, ending, count):
    monkeypatch.setattr(line_shards, "SHARD_BYTES", shard_bytes)
    scores = [0.5] * (40 + count)
    with pytest.raises(UserError, match=rf"two has 40 lines and .*scores1{ending} has {count}; line n of one belongs"):
        made(tmp_path, with_scores(files, write, scores, ending))


def test_there_must_be_scores_for_each_file(tmp_path, files, write):
    options = files | {"train_scores": write("scores", SCORES)}
    with pytest.raises(UserError) as raised:
        made(tmp_path, options)
    assert str(raised.value) == (
        "text2text_files: 2 with --train_source and 1 with --train_scores are named; file n of one must go with file n "
        "of the other; name as many of each"
    )
    with pytest.raises(UserError, match=r"there is no such file: --train_scores=.*/none; check the paths"):
        made(tmp_path, files | {"train_scores": f"{write('scores', SCORES)},{tmp_path}/none"})


@pytest.mark.parametrize(("name", "value"), [("filter_min_score", 0.5), ("train_score_column", 2)])
def test_without_scores_there_is_nothing_to_compare(files, name, value):
    said = f"--{name}={value}: there are no scores; name their file with --train_scores, or leave it out"
    with pytest.raises(UserError) as raised:
        Text2TextFiles(**files, **{name: value})
    assert str(raised.value) == said


def test_filters_make_other_data(tmp_path, files, write):
    options = with_scores(files, write, SCORES) | {"filter_min_score": 0.9}
    made(tmp_path, options)
    manifest = read_manifest(tmp_path / "data" / "text2text_files")
    assert manifest.options["filter_min_score"] == 0.9
    assert {"train_scores 1", "train_scores 2"} < set(manifest.raw_files)
    with pytest.raises(UserError, match=r"made otherwise than asked \(filter_min_score: asked 0\.8, found 0\.9\)"):
        made(tmp_path, options | {"filter_min_score": 0.8})
    with pytest.raises(UserError, match=r"\(filter_min_words: asked 2, found none\)"):
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
    kept = [
        n for n in good if n % 40 >= 10
    ]  # `one 7` and `eins 7` have 5 and 6 characters, `one 17` and `eins 17` 6 and 7
    assert found == pairs_of(*kept)
    ratio, score = len(good) - len(kept), 80 - len(good)
    assert record.dropped == {"with a length ratio above 1.18": ratio, "with a score below 0.5": score}
    assert (
        f"train: {len(kept)} examples written; {80 - len(kept)} dropped ({ratio} with a length ratio above 1.18, "
        f"{score} with a score below 0.5)" in log_lines.messages
    )


def test_what_filters_drop_is_not_unfit(tmp_path, files, write):
    """Of 80 pairs 72 are filtered, and some of the other 8 have an empty side, which makes them unfit."""
    options = with_scores(files, write, SCORES) | {"filter_min_score": 0.9}
    for unfit, fails in ((3, False), (5, True)):
        lines = ["" if n in GOOD[:unfit] else f"one {n}" for n in range(40)]
        more = ["" if n + 40 in GOOD[:unfit] else f"two {n}" for n in range(40)]
        options["train_source"] = f"{write('one', lines)},{write('two', more)}"
        if not fails:
            assert made(tmp_path, options)[0].examples == 8 - unfit
            continue
        said = (
            r"unfit: 5 of 8 examples that filters keep; 77 dropped \(72 with a score below 0.9, 5 with an empty side\)"
            r"; loosen the filters \(--filter_\.\.\.\), or check the raw files and their encoding"
        )
        with pytest.raises(UserError, match=said):
            made(tmp_path, options, "other")


def test_filters_that_drop_everything_are_named(tmp_path, files):
    with pytest.raises(UserError) as raised:
        made(tmp_path, files | {"filter_min_words": 3})
    assert str(raised.value) == (
        "split 'train' of text2text_files is empty; 80 dropped (80 with fewer than 3 words); loosen the filters "
        "(--filter_...), or check the raw files and their encoding, or the problem's max_length"
    )


def test_the_vocabulary_is_learnt_from_what_filters_keep(tmp_path, files, write):
    options = with_scores(files, write, [1] * 40 + [0] * 40) | {"filter_min_score": 0.5, "vocab_kind": "token"}
    made(tmp_path, options)
    folder = tmp_path / "data" / "text2text_files"
    encoder = load_encoders(folder, read_manifest(folder))["inputs"]
    pieces = {encoder.piece(number) for number in range(3, encoder.vocab_size)}
    assert {"one", "eins", "39"} < pieces
    assert not {"two", "zwei"} & pieces


def test_texts_in_another_language_are_dropped(tmp_path, files, write):
    english = ["The committee will meet again on Thursday.", "He looked out of the window for a long time."]
    german = ["Der Ausschuss tritt am Donnerstag wieder zusammen.", "Er sah lange Zeit aus dem Fenster hinaus."]
    options = files | {
        "train_source": write("s", [english[0], english[1], german[1]]),
        "train_target": write("t", [german[0], english[1], german[1]]),
        "source_language": "en", "target_language": "de", "filter_language": True,
    }  # fmt: skip
    record, found = made(tmp_path, options)
    assert found == [(english[0], german[0])]
    assert record.dropped == {
        "with a source in another language than en": 1, "with a target in another language than de": 1,
    }  # fmt: skip


@pytest.mark.parametrize("shard_bytes", [1 << 20, 60])
def test_files_are_taken_by_their_weights(tmp_path, files, monkeypatch, shard_bytes, log_lines):
    monkeypatch.setattr(line_shards, "SHARD_BYTES", shard_bytes)
    record, found = made(tmp_path, files | {"train_weights": "3,0.5"})
    counts = Counter(found)
    assert list(dict.fromkeys(found)) == pairs_of(*range(40), *(n for n in range(40, 80) if counts[pairs_of(n)[0]]))
    assert {counts[pair] for pair in pairs_of(*range(40))} == {3}
    assert {counts[pair] for pair in pairs_of(*range(40, 80))} == {0, 1}
    dropped = record.dropped["not taken by weight"]
    assert 8 <= dropped <= 32  # 4 standard deviations around 20
    assert (record.repeated, record.examples) == (80, 160 - dropped)
    assert (
        f"train: {160 - dropped} examples written; {dropped} dropped ({dropped} not taken by weight); 80 repeated by "
        f"weight" in log_lines.messages
    )
    again = made(tmp_path, files | {"train_weights": "3,0.5"}, "again", workers=2)
    assert again == (record, found)
    assert made(tmp_path, files | {"train_weights": "3,0.5"}, "other", seed=1)[1] != found


def test_copies_by_weight_are_no_duplicates(tmp_path, files, write):
    options = files | {"train_source": f"{write('a', 'xyx')},{write('b', 'xz')}"}
    options["train_target"] = f"{write('c', 'xyx')},{write('d', 'xz')}"
    record, found = made(tmp_path, options | {"train_weights": "2,1", "filter_duplicates": "pair"})
    assert found == [("x", "x"), ("x", "x"), ("y", "y"), ("y", "y"), ("z", "z")]
    assert (record.dropped, record.repeated) == ({"duplicates": 2}, 2)


@pytest.mark.parametrize("shard_bytes", [1 << 20, 4])
def test_a_source_with_two_translations_has_the_weight_of_each(tmp_path, files, write, monkeypatch, shard_bytes):
    monkeypatch.setattr(line_shards, "SHARD_BYTES", shard_bytes)
    source = write("source", "xy")
    options = files | {"train_source": f"{source},{source}", "train_target": f"{write('t', 'ab')},{write('u', 'cd')}"}
    _, found = made(tmp_path, options | {"train_weights": "1,3"})
    assert Counter(found) == {("x", "a"): 1, ("y", "b"): 1, ("x", "c"): 3, ("y", "d"): 3}


def test_a_pair_of_files_with_two_weights_is_refused(tmp_path, files, write):
    source, target, other = write("source", "xy"), write("target", "ab"), write("other", "cd")
    options = {"train_source": (source, source, source), "train_target": (target, other, target)}
    options = files | {name: ",".join(paths) for name, paths in options.items()}
    with pytest.raises(UserError) as raised:
        made(tmp_path, options | {"train_weights": "1,1,3"})
    assert str(raised.value) == (
        "--train_weights=1,1,3: source and target are named more than once as training files; name them once, with the "
        "sum of their weights"
    )
    _, found = made(tmp_path, options)
    assert Counter(found) == {("x", "a"): 2, ("y", "b"): 2, ("x", "c"): 1, ("y", "d"): 1}


def test_a_pair_of_files_with_two_files_of_scores_has_the_weight_of_each(tmp_path, files, write):
    source, target, low, high = write("source", "xy"), write("target", "ab"), write("low", "01"), write("high", "23")
    options = {"train_source": (source,) * 2, "train_target": (target,) * 2, "train_scores": (low, high)}
    options = files | {name: ",".join(paths) for name, paths in options.items()} | {"filter_min_score": 1}
    _, found = made(tmp_path, options | {"train_weights": "1,3"})
    assert Counter(found) == {("x", "a"): 3, ("y", "b"): 4}


def test_there_must_be_a_weight_for_each_file(tmp_path, files):
    with pytest.raises(UserError, match=r"--train_weights=1: 1 weight for 2 training files \(one, two\); give one for"):
        made(tmp_path, files | {"train_weights": "1"})
