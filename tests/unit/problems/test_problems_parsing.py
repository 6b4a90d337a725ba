"""Parsing problems: where trees are searched, how they are encoded, and how outputs become trees."""

import gzip
import io
from collections import Counter

import pytest
import sentencepiece

from t2t.features.tree import tree_labels
from t2t.features.treebank_reading import MALFORMED
from t2t.problems.base import Finished
from t2t.problems.parsing import ParsingTrees, WsjParsing, WsjParsingSemi
from t2t.runs.names import get_problem
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.words import TokenEncoder
from tests.errors import refused

DOG = "( (S (NP-SBJ (DT A) (NN dog)) (VP (VBZ runs) (NP (-NONE- *)))) )\n"
CAT = "( (S (NP (NN cat))\n     (VP (VBZ sleeps))) )\n"
DOG_SAMPLE = {"inputs": "A dog runs", "targets": "S NP DT NN /NP VP VBZ /VP /S"}
CAT_SAMPLE = {"inputs": "cat sleeps", "targets": "S NP NN /NP VP VBZ /VP /S"}


def wsj_folder(folder):
    for section in (*range(2, 22), 22, 23):
        (folder / f"{section:02d}").mkdir(parents=True)
        text = {2: DOG + CAT, 22: CAT, 23: DOG}.get(section, DOG)
        (folder / f"{section:02d}" / f"wsj_{section:02d}01.mrg").write_text(text)
    (folder / "02/wsj_0200.mrg").write_text(CAT)


@pytest.mark.parametrize("inside", ["wsj", "parsed/mrg/wsj", "."])
def test_the_treebanks_own_folders(source, tmp_path, inside):
    wsj_folder(tmp_path / inside)
    problem = WsjParsing()
    assert list(problem.generate_samples("train", source)) == [CAT_SAMPLE, DOG_SAMPLE, CAT_SAMPLE] + [DOG_SAMPLE] * 19
    assert list(problem.generate_samples("dev", source)) == [CAT_SAMPLE]
    assert list(problem.generate_samples("test", source)) == [DOG_SAMPLE]
    found = WsjParsing().raw_files(tmp_path)
    assert len(found) == 23
    assert found["train trees 0"] == tmp_path / inside / "02/wsj_0200.mrg"
    assert found["test trees 0"] == tmp_path / inside / "23/wsj_2301.mrg"
    assert WsjParsing().raw_files(tmp_path / "nothing") == {}


def test_files_of_trees_a_line_with_and_without_annotations(source, tmp_path):
    (tmp_path / "wsj_dev.trees.gz").write_bytes(gzip.compress((DOG + DOG).encode()))
    assert list(WsjParsing().generate_samples("dev", source)) == [DOG_SAMPLE] * 2
    (tmp_path / "t").write_text(DOG)
    problem = ParsingTrees(train_trees=str(tmp_path / "t"), dev_trees="b", keep_annotations=True)
    (kept,) = problem.generate_samples("train", source)
    assert kept == {"inputs": "A dog runs *", "targets": "S NP-SBJ DT NN /NP-SBJ VP VBZ NP -NONE- /NP /VP /S"}
    assert [path.name for path in problem.raw_files(tmp_path).values()] == ["t", "b"]


def test_further_trees_are_learnt_from_and_nothing_else(source, tmp_path):
    wsj_folder(tmp_path / "wsj")
    problem = WsjParsingSemi()
    with refused(tmp_path / "semi", "--tmp_dir", "wsj/"):
        list(problem.generate_samples("train", source))
    (tmp_path / "semi").mkdir()
    (tmp_path / "semi/more.trees").write_text(CAT * 3)
    assert list(problem.generate_samples("train", source))[-3:] == [CAT_SAMPLE] * 3
    assert list(problem.generate_samples("dev", source)) == [CAT_SAMPLE]
    assert (WsjParsing.vocab_size, WsjParsingSemi.vocab_size) == (16_384, 32_768)


def test_no_trees(source):
    problem = WsjParsing()
    problem.name = "wsj_parsing"
    with refused("wsj_parsing,", "dev:", f"--tmp_dir={source.tmp_dir}", "wsj/02/wsj_0201.mrg"):
        list(problem.generate_samples("dev", source))
    with refused("--dev_trees", "--train_trees"):
        list(ParsingTrees(train_trees="x").generate_samples("dev", source))
    (source.tmp_dir / "t").write_text("( (S (-NONE- *)) )\n")  # trees without words have no labels
    files = dict.fromkeys(("train_trees", "dev_trees"), f"{source.tmp_dir}/t")
    with refused("parsing_trees:"):
        get_problem("parsing_trees", files).build_encoders(source)
    assert ParsingTrees(train_trees="a", dev_trees="b").splits == ("train", "dev")
    assert ParsingTrees(train_trees="a", dev_trees="b", test_trees="c").splits == ("train", "dev", "test")


def test_every_label_has_an_id(source, tmp_path, caplog):
    """However many labels the trees have, and whichever split they are in."""
    many = "".join(f"( (S (A{number} w)) )\n" for number in range(1000))
    for split, trees in (("train", many + DOG * 2), ("dev", CAT), ("test", "( (FRAG (UH oh) (X (UH no))) )\n")):
        (tmp_path / split).write_text(trees)
    files = {f"{split}_trees": str(tmp_path / split) for split in ("train", "dev", "test")}
    problem = ParsingTrees(**files, vocab_kind="byte", vocab_size=50)
    labels = problem.build_encoders(source)["targets"]
    assert "--vocab_size=50" in caplog.text, "bytes of sentences cannot have it"
    for split in problem.splits:
        for sample in problem.generate_samples(split, source):
            assert labels.decode(labels.encode(sample["targets"])) == sample["targets"]
    pieces = [labels.piece(number) for number in range(labels.vocab_size)]
    assert pieces[3:5] == ["/S", "S"]  # which occur most often
    assert pieces[-5:] == ["/FRAG", "/X", "FRAG", "UH", "X"]  # which no training tree has


def test_what_cannot_be_used_is_counted_and_named(source, tmp_path, caplog):
    bad = "( (S (NP cat dog) (VP (VBZ x))) )\n"
    same = "( (X (X a) (Y b)) )\n"
    (tmp_path / "t").write_text(DOG + bad + "( (S (-NONE- *)) )\n" + same + CAT)
    problem = ParsingTrees(train_trees=str(tmp_path / "t"))
    assert list(problem.generate_samples("train", source)) == [DOG_SAMPLE, CAT_SAMPLE]
    assert source.tally == Counter(
        {MALFORMED: 1, "trees without words skipped": 1, "trees with one label for a phrase and a word skipped": 1}
    )
    assert f"{tmp_path}/t:2: " in caplog.text


@pytest.mark.parametrize(
    "slip", ["(TOP (S (NN (JJ old) (NNS men)) (VP (VBP run))))", "(TOP (S (NP dogs) (VP (VBP run))))"]
)
@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_slip_in_one_tree_is_skipped_and_spoils_no_other(source, tmp_path, slip, split):
    trees = [
        "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ runs))))",
        "(TOP (S (NP (DT A) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog)))))",
    ]
    text = {name: "\n".join([*trees, *([slip] if name == split else [])]) for name in ("train", "dev")}
    for name, lines in text.items():
        (tmp_path / name).write_text(lines)
    problem = ParsingTrees(train_trees=str(tmp_path / "train"), dev_trees=str(tmp_path / "dev"), vocab_kind="byte")
    problem.with_encoders(problem.build_encoders(source))
    found = {name: list(problem.generate_samples(name, source)) for name in text}
    for samples in found.values():
        assert [problem.finish(one["inputs"], one["targets"]).text for one in samples] == trees
    assert source.tally == {"trees with a phrase's label on a word or a word's on a phrase skipped": 1}
    labels = problem.encoders["targets"]
    named = tree_labels(labels)
    assert {labels.piece(tag) for tag in named.tags} == {"DT", "NN", "VBD", "VBZ"}
    assert {labels.piece(begin) for begin, _ in named.phrases} == {"S", "NP", "VP"}


def test_labels_that_only_skipped_trees_have_are_not_listed(source, tmp_path):
    """NN is mostly a tag, X a phrase as often as a tag; the trees that tag with X have the wrong NN, too."""
    (tmp_path / "t").write_text(DOG * 3 + "( (S (NN (X a) (Y b))) )\n( (X (NN (Z a))) )\n")
    problem = ParsingTrees(train_trees=str(tmp_path / "t"), dev_trees=str(tmp_path / "t"), vocab_kind="byte")
    problem.with_encoders(problem.build_encoders(source))
    assert list(problem.generate_samples("train", source)) == [DOG_SAMPLE] * 3
    labels = problem.encoders["targets"]
    assert {labels.piece(number) for number in range(3, labels.vocab_size)} == set(DOG_SAMPLE["targets"].split())


def test_too_many_malformed_trees_stop_the_job(source, tmp_path):
    (tmp_path / "t").write_text((DOG * 2 + "( (S (NP dog cat)) )\n") * 100)
    with refused(20, 60, tmp_path / "t:60:", "2%"):
        list(ParsingTrees(train_trees=str(tmp_path / "t")).generate_samples("train", source))


def test_words_begin_with_pieces_behind_a_space_and_with_tags(source, tmp_path):
    """Each sentence and each tree has as many as the sentence has words."""
    words = ["dogs", "cats", "a", "the", "barked", "barking", "meowed"]
    trees = "".join(f"( (S (NP (DT {a}) (NN {b})) (VP (VBD {c}))) )\n" for a in words for b in words for c in words)
    (tmp_path / "t").write_text(trees)
    problem = ParsingTrees(train_trees=str(tmp_path / "t"), dev_trees=str(tmp_path / "t"), vocab_size=300)
    problem.with_encoders(problem.build_encoders(source))
    starts = {name: feature.word_starts for name, feature in problem.spec().features.items()}
    encoded = problem.encode_samples(list(problem.generate_samples("train", source)))
    assert any(len(example["inputs"]) > 4 for example in encoded)  # of several pieces a word
    for example in encoded:
        for name, ids in example.items():
            assert "".join(starts[name][number] for number in ids).count("1") == 3


def test_vocabularies_that_do_not_mark_words_have_no_positions_of_words():
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["of the dog", "of the cat"] * 20), model_writer=made, minloglevel=2, model_type="bpe",
        vocab_size=280, hard_vocab_limit=False, split_by_whitespace=False, byte_fallback=True, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, normalization_rule_name="identity", remove_extra_whitespaces=False,
    )  # fmt: skip
    words = SentencePieceEncoder(made.getvalue())
    assert "▁of▁the" in {words.piece(number) for number in range(words.vocab_size)}
    problem = ParsingTrees(train_trees="a", dev_trees="b")
    problem.with_encoders({"inputs": words, "targets": TokenEncoder(["S", "NN", "/S"])})
    assert problem.spec().inputs.word_starts == ""  # which `WordCounts` refuses


# === Given outputs ===
@pytest.fixture
def parser():
    problem = ParsingTrees(train_trees="a", dev_trees="b")
    return problem.with_encoders({"targets": TokenEncoder(["S", "NP", "DT", "NN", "VP", "VBZ", "/S", "/NP", "/VP"])})


def test_given_trees_are_read_as_labels_and_outputs_become_trees_over_the_words_of_the_input(parser):
    labels = DOG_SAMPLE["targets"]
    written = parser.finish(DOG_SAMPLE["inputs"], labels).text
    for given in (written, DOG.strip(), f" {written} ", labels):
        assert parser.read_target(given, " A  dog\truns ").split() == labels.split()
        assert parser.read_target(given).split() == labels.split(), "without a sentence, words are not counted"
    kept = ParsingTrees(train_trees="a", dev_trees="b", keep_annotations=True)
    assert kept.read_target(DOG, "A dog runs *") == "S NP-SBJ DT NN /NP-SBJ VP VBZ NP -NONE- /NP /VP /S"
    assert parser.read_target("", "") == ""
    problem = ParsingTrees(train_trees="a", dev_trees="b")
    problem.with_encoders({"targets": TokenEncoder(["S", "NP", "NN", "/S", "/NP"])})
    assert problem.finish("a dog", "S NP NN NN /NP /S") == Finished("(TOP (S (NP (NN a) (NN dog))))", False)
    assert problem.finish("a dog", "S NP NN NN") == Finished("(TOP (S (NP (NN a) (NN dog))))", True)
    assert problem.finish(" ", "S") == Finished("")


@pytest.mark.parametrize(("tree", "names"), [
    ("(TOP (S (NN dog))", ["1"]),
    ("(S (NN dog) (VBZ runs)) S", ["S"]),
    ("(S (NN dog) (VBZ runs)) (S (NN dog))", ["2"]),
    *((tree, []) for tree in ("(S (NP dog) (NP (NN runs)))", "(S (-NONE- dog))")),
    ("(S (NN dog))", ["1,", "2;"]),
])  # fmt: skip
def test_what_is_no_tree_over_the_words_is_said(parser, tree, names):
    with refused(*names) as caught:
        parser.read_target(tree, "dog runs")
    assert repr(tree) in str(caught.value)
