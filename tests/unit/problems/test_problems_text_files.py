"""Files of text: pairs that options or a problem name, lines, and shards of several or large files."""

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from t2t.cli import datagen
from t2t.data.generation.generate import generate
from t2t.data.manifest import read_manifest
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.training_batches import TrainingBatches
from t2t.files.lines import INVALID_UTF8
from t2t.problems.base import declared_spec
from t2t.problems.split_files import count_blocks
from t2t.problems.text_files import Text2TextFiles
from t2t.problems.translation import TranslationFiles
from t2t.runs.names import get_problem
from t2t.text.byte import ByteEncoder
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
    for value in (["a"], 3):
        with refused(f"train_source={value!r}:", type(value).__name__, "text,", "commas"):
            Text2TextFiles(train_source=value)
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
    count_blocks(lambda: problem.files_of("train"), "train", source)
    logged = [record.getMessage() for record in caplog.records]
    assert [[str(path) in line for path in pair] for line, pair in zip(logged, pairs, strict=True)] == [
        [True] * 3
    ] * len(pairs)


@pytest.mark.parametrize(("source_pattern", "target_pattern", "scores", "about"), [
    ("part-*.en", "part-*.de", "", ("part-2.en", "part-3.de")),
    ("part-?.en", "part-[0-9]*.de", "", ("part-2.en", "part-3.de")),
    ("part-[12].en", "part-[13].de", "", ("part-2.en", "part-3.de")),
    ("part-*.en", "part-*.en", "part-*.de", ("part-2.en", "part-3.de")),
    ("x,part-2*en", "y,part-*.de", "", ("part-2.en", "part-1.de")),
    ("part-2*.en", "part-*.de", "", ("part-2.en", "part-1.de")),  # the first matches an empty text
    ("part-*.en", "part-[13].de", "", ("part-2.en", "part-3.de")),
    ("part-2.e*", "part-2.*", "", ("part-2.en", "part-2.en")),
])  # fmt: skip
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


@pytest.mark.parametrize(("kind", "changes", "split", "expected"), [
    (News, {}, "train", [("een", "ett"), ("twee", "två")]),
    (News, {}, "dev", [("drie", "tre")]),
    (News, {"dev.nl": "vier\n"}, "dev", [("vier", "tre")]),  # the name as it stands comes first
    (News, {"dev.sv": b"tr\xff\n"}, "dev", [("drie", "tr\ufffd")]),
    (Both, {}, "train", [("een", "ett"), ("twee", "två"), ("drie", "tre")]),
])  # fmt: skip
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
    assert News.splits == ("train", "dev")
    with refused("'test':", "news", "train,", "dev;"):
        samples(News(), "test")


# === Lines: one file for each split ===
@pytest.fixture
def lines_files(tmp_path):
    """Returns options that name files with these contents."""

    def write(**contents):
        for split, content in contents.items():
            (tmp_path / split).write_text(content)
        return {f"{split}_file": str(tmp_path / split) for split in contents}

    return write


@pytest.fixture
def classify(lines_files, tmp_path):
    """Returns a function that generates the data of a classification from files with these contents."""

    def make(**contents):
        problem = get_problem("classify_files", lines_files(**contents) | {"vocab_kind": "byte"})
        return generate(problem, tmp_path / "data", tmp_path, workers=1)

    return make


def test_classes_are_those_of_the_training_file(lines_files, source):
    options = lines_files(train="so so\tit is\ngood\tI like it\n\nbad\tno\t no\n", dev="good\tyes\n", test="bad\toh\n")
    problem = get_problem("classify_files", options | {"vocab_kind": "byte"})
    assert problem.splits == ("train", "dev", "test")
    samples = list(problem.generate_samples("train", source))
    assert [tuple(sample.values()) for sample in samples] == [
        ("it is", "so so"), ("I like it", "good"), ("no\t no", "bad"),
    ]  # fmt: skip
    problem.with_encoders(problem.build_encoders(source))
    assert [problem.decode_target(n) for n in range(3)] == ["bad", "good", "so so"]
    assert problem.spec().targets.vocab_size == 3
    assert [int(e["targets"]) for e in problem.encode_samples(samples)] == [2, 1, 0]
    assert declared_spec(problem).targets.kind == "label"
    language_model = get_problem("languagemodel_files", lines_files(train="one\n\n two three \n", dev="four\n"))
    assert [sample["targets"] for sample in language_model.generate_samples("train", source)] == ["one", "two three"]


@pytest.mark.parametrize(("train", "dev", "names"), [
    *((empty, "good\tyes\n", ["'train'", "classify_files", "--train_file="]) for empty in ("", "\n \n")),
    *(("good\tyes\n", empty, ["'dev'", "classify_files", "--dev_file="]) for empty in ("", "\n \n")),
    ("good\tyes\nbad\tno\n", "good\tyes\nfine\tperhaps\n", ["/dev,", "2,", "'fine',", "(bad,"]),
    ("good yes\n", "good\tyes\n", ["/train,", "1,", "TAB:", "yes'"]),
    ("\tyes\n", "good\tyes\n", ["/train,", "1,", "'';"]),
])  # fmt: skip
def test_wrong_lines_and_empty_files_are_named(classify, train, dev, names):
    with refused(*names):
        classify(train=train, dev=dev)


def test_files_that_are_not_given_or_not_there(lines_files, tmp_path, capsys):
    with refused("ClassifyFiles:", "--dev_file", f"--train_file={tmp_path}/train;"):
        get_problem("classify_files", lines_files(train="a\tb\n"))
    for flags, named in (
        ([], ["--train_file,", "--dev_file ", "--train_file=FILE", "--dev_file=FILE", "--test_file=FILE"]),
        (["--train_file=/gone/x", "--dev_file=/gone/y"], ["--train_file=/gone/x", "--dev_file=/gone/y"]),
    ):
        asked = ["t2t-datagen", "--problem=languagemodel_files", f"--data_dir={tmp_path}/data", *flags]
        assert datagen.main(asked) == 2
        said = capsys.readouterr().err
        assert all(name in said for name in ("languagemodel_files: ", *named))


def test_long_text_of_a_class_is_kept_and_cut_when_it_is_learnt(classify, tmp_path):
    """Long texts are cut for classification; in text to text, examples that are too long are dropped or skipped."""
    manifest = classify(train=f"a\t{'x' * 700}\nb\t{'y' * 5}\n", dev="a\tz\n")
    assert manifest.splits["train"].examples == 2
    assert manifest.splits["train"].dropped == {}
    folder = tmp_path / "data" / "classify_files"
    reader = SplitReader(folder, read_manifest(folder), "train")
    batches = TrainingBatches(reader, seed=1, batch_size=40, max_length=20)
    assert batches.skipped == 0
    (batch, _) = next(batches)
    x, y = ord("x") + 2, ord("y") + 2
    rows = sorted(batch["inputs"].tolist(), reverse=True)
    assert rows == [[y] * 5 + [1] + [0] * 14, [x] * 19 + [1]]
    [(_, evaluated)] = EvalBatches(reader, 40, max_length=20)
    assert sorted(evaluated["inputs"].tolist(), reverse=True) == rows


@pytest.mark.parametrize(("changes", "lengths"), [
    ({}, [500, 501, 6]), ({"cut_length": 400}, [333, 334, 334, 6]), ({"cut_length": 1001}, [1001, 6]),
])  # fmt: skip
def test_long_texts_of_a_language_model_are_cut_into_equal_parts(lines_files, tmp_path, caplog, changes, lengths):
    """Of 1,001 ids none is lost, of any split, and only the last part ends the sequence."""
    caplog.set_level("INFO", logger="t2t")
    text = "".join(chr(97 + n % 26) for n in range(1000))
    options = lines_files(train=f"{text}\nshort\n", dev=f"{text}\nshort\n") | {"vocab_kind": "byte"} | changes
    manifest = generate(get_problem("languagemodel_files", options), tmp_path / "data", tmp_path, workers=1)
    for split in ("train", "dev"):
        reader = SplitReader(tmp_path / "data/languagemodel_files", manifest, split)
        ids, found = reader.read(np.arange(len(reader)), "targets")
        assert sorted(found) == sorted(lengths)
        assert [*ids] == [*np.concatenate(ByteEncoder().encode_ended([text, "short"]))]
        assert manifest.splits[split].dropped == {}
    assert ("1 long texts cut" in caplog.text) == (len(lengths) > 2)


# === Files that are surely wrong ===
ENGLISH = [f"the {noun} is {size}" for noun in ("house", "ship", "road") for size in ("old", "big", "red", "new")]
GERMAN = [f"das {noun} ist {size}" for noun in ("Haus", "Schiff", "Rad") for size in ("alt", "weit", "rot", "neu")]
PAIR = {"train_source": ENGLISH, "train_target": GERMAN, "dev_source": ENGLISH, "dev_target": GERMAN}
TABLE = [f"{one}\t{other}" for one, other in zip(ENGLISH, GERMAN, strict=True)]
LATIN = [line.encode() for line in GERMAN[1:]] + ["das ist schön".encode("latin-1")]


@pytest.mark.parametrize(("changes", "about"), [
    ({}, []),
    ({"train_target": ENGLISH}, ["train:", "100.0%", "both"]),
    ({"train_target": [*GERMAN[:6], *ENGLISH[6:]]}, []),
    ({"dev_source": GERMAN, "dev_target": ENGLISH}, ["dev:", "swapped,"]),
    ({"train_source": [*TABLE[:7], *ENGLISH[7:]]}, ["train:", "58.3%", "TAB;", "column"]),
    ({"train_source": [*TABLE[:6], *ENGLISH[6:]]}, []),
    ({"dev_source": [f'{{"text": "{line}"}}' for line in ENGLISH]}, ["dev:", "100.0%", "JSON;"]),
    ({"train_target": [f'{{"text": "{line}"}}' for line in GERMAN]}, []),  # which may be what is to be written
    ({"train_target": LATIN}, ["train:", "8.3%", "(1", "UTF-8"]),
])  # fmt: skip
def test_files_that_are_surely_wrong_are_a_warning_with_the_figure(tmp_path, caplog, changes, about):
    for name, lines in (PAIR | changes).items():
        rows = [line if isinstance(line, bytes) else line.encode() for line in lines]
        (tmp_path / name).write_bytes(b"\n".join(rows) + b"\n")
    options = {name: str(tmp_path / name) for name in PAIR} | {"vocab_kind": "token"}
    generate(get_problem("text2text_files", options), tmp_path / "data", tmp_path, workers=1)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    said = [line for line in said if "unknown words" not in line]
    assert len(said) == bool(about), said
    assert all(word in said[0] for word in about)


# === Shards ===
def write(path, lines):
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Pairs of files of 30, 20 and 10 lines, the second packed on one side; the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, count, ending in (("a", 30, ""), ("b", 20, ".gz"), ("c", 10, "")):
        write(tmp_path / f"{name}.en{ending}", [f"{name} line {number}" for number in range(count)])
        write(tmp_path / f"{name}.de", [f"{name} Zeile {number}" for number in range(count)])
    for side in ("en", "de"):
        write(tmp_path / f"dev.{side}", [f"{side} {number}" for number in range(5)])
    return tmp_path


def options(source="[abc].en*", target="[abc].de"):
    return {"train_source": source, "train_target": target, "dev_source": "dev.en", "dev_target": "dev.de"}


def test_each_of_several_files_is_a_shard_and_a_large_plain_one_is_cut_at_the_same_lines(corpus, parts_of, source):
    *parts, whole = parts_of(get_problem("text2text_files", options()))
    assert [len(part) for part in parts] == [30, 20, 10]
    assert whole == [sample for part in parts for sample in part]
    assert parts[1][3] == {"inputs": "b line 3", "targets": "b Zeile 3"}
    source.shard_bytes = 100
    *parts, whole = parts_of(get_problem("text2text_files", options()))
    assert [len(part) for part in parts] == [10, 10, 10, 20, 10]  # of 10 or 11 bytes on the larger side
    assert whole == [sample for part in parts for sample in part]
    assert all(one["inputs"].split()[2] == one["targets"].split()[2] for one in whole)


def generate_again(corpus, **changed):
    problem = get_problem("text2text_files", options(**changed) | {"vocab_kind": "byte"})
    return generate(problem, "data", corpus, workers=1)


def test_data_remember_each_file_and_each_is_cut_once(corpus, cuts):
    manifest = generate_again(corpus)
    assert {name: Path(file.path).name for name, file in manifest.raw_files.items()} == {
        "train_source 1": "a.en", "train_source 2": "b.en.gz", "train_source 3": "c.en", "train_target 1": "a.de",
        "train_target 2": "b.de", "train_target 3": "c.de", "dev_source": "dev.en", "dev_target": "dev.de",
    }  # fmt: skip
    assert manifest.split("train").examples == 60
    assert len(cuts) == 4  # three pairs to learn from and one to evaluate on


def test_files_are_not_listed_again_for_each_shard(corpus):
    listed = []

    class Listing(Text2TextFiles):
        def files_of(self, split):
            listed.append(split)
            return super().files_of(split)

    generate(Listing(**options(), vocab_kind="byte"), "data", corpus, workers=1)
    assert Counter(listed) == {"train": 1, "dev": 2}, "dev is one shard, which is read as a whole"


def test_one_file_more_or_another_content_is_other_data_and_files_that_have_moved_are_not(corpus):
    generate_again(corpus)
    assert generate_again(corpus, source="a.en,b.en.gz,c.en").split("train").examples == 60
    shutil.copytree(corpus, corpus / "moved", ignore=shutil.ignore_patterns("data"))
    moved = {"source": "moved/[abc].en*", "target": "moved/[abc].de"}
    assert generate_again(corpus, **moved).split("train").examples == 60
    write(corpus / "moved/b.de", ["other"] * 20)
    with refused("train_target:", "moved/b.de"):
        generate_again(corpus, **moved)
    write(corpus / "c.en", ["other"] * 10)
    with refused("text2text_files", "/c.en"):
        generate_again(corpus)
    with refused("train_source:", "none", "/c.en"):
        generate_again(corpus, source="a.en,b.en.gz", target="a.de,b.de")


def test_files_that_lack_their_counterpart_or_are_not_there_are_named(corpus, parts_of):
    with refused("text2text_files:", 3, "--train_source", 2, "--train_target"):
        parts_of(get_problem("text2text_files", options(target="a.de,b.de")))
    with refused("text2text_files:", f"--train_source={corpus}/x*.en", f"--train_target={corpus}/gone.de"):
        parts_of(get_problem("text2text_files", options("x*.en", "a.de,gone.de")))


def test_lines_of_several_files_are_named_by_file_and_number(corpus, parts_of, source):
    source.shard_bytes = 40
    write(corpus / "one", [f"good\tyes {number}" for number in range(20)])
    write(corpus / "two", [f"bad\tno {number}" for number in range(20)] + ["nothing"])
    problem = get_problem("classify_files", {"train_file": "one,two", "dev_file": "one", "vocab_kind": "byte"})
    with refused("/two,", "21,", "'nothing';"):
        parts_of(problem)
    write(corpus / "two", [f"bad\tno {number}" for number in range(20)])
    *parts, whole = parts_of(problem)
    assert len(parts) > 8
    assert whole == [sample for part in parts for sample in part]
    assert problem.build_encoders(source)["targets"].names == ("bad", "good")


class CutNews(TranslationFiles):
    name = "news"
    split_files = {"train": ("a.en", "a.de"), "dev": ("dev.en", "dev.de")}


def test_each_kind_of_file_has_its_shards(corpus, parts_of, source):
    (corpus / "a.wav").write_bytes(b"")
    write(corpus / "list", [f"a.wav\tword {number}" for number in range(1203)])
    for name in ("one", "two"):
        write(corpus / name, [f"(TOP (S (NN {name}) (VB runs)))"] * 3)
    trees = get_problem("parsing_trees", {"train_trees": "one,two", "dev_trees": "one", "vocab_kind": "byte"})
    for problem, shard_bytes, sizes in (
        (get_problem("speech_files", {"train_file": "list", "dev_file": "list"}), 0, [1000, 203]),
        (trees, 0, [3, 3]),
        (CutNews(), 100, [10, 10, 10]),
    ):
        source.shard_bytes = shard_bytes or source.shard_bytes
        *parts, whole = parts_of(problem)
        assert [len(part) for part in parts] == sizes
        assert whole == [sample for part in parts for sample in part]
    assert [sample["inputs"] for sample in trees.generate_samples("train", source)] == ["one runs"] * 3 + [
        "two runs"
    ] * 3
    assert [path.name for path in trees.raw_files(corpus).values()] == ["one", "two", "one"]


def test_a_vocabulary_is_learnt_from_all_shards_within_its_bytes(corpus, source):
    problem = get_problem("text2text_files", options() | {"vocab_kind": "token", "vocab_size": 500})
    encoders = problem.build_encoders(source)
    encoder = encoders["inputs"]
    assert encoder is encoders["targets"], "from both sides"
    assert {encoder.piece(number) for number in range(encoder.vocab_size)} >= {"a", "b", "c", "29", "line", "Zeile"}
    problem = get_problem("text2text_files", options() | {"vocab_kind": "token", "vocab_size": 500})
    problem.vocab_sample_bytes = 200
    few = problem.build_encoders(source)["inputs"]
    assert few.vocab_size < encoder.vocab_size
    assert {few.piece(number) for number in range(few.vocab_size)} >= {"a", "b", "c"}
