"""Translators obey a problem's output constraint; parsers read sentences and trees."""

import dataclasses
import random

import numpy as np
import pytest

from t2t.features.tree import tree_labels
from t2t.features.treebank_trees import parse_tree
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.scoring import score_file
from t2t.inference.files.shards import Shard
from t2t.inference.files.windows import FileJob
from t2t.inference.output_constraints import OutputTerms, constraints_of
from t2t.inference.search_steps import FINISHED, beam_tree
from t2t.inference.translator import Translator
from t2t.problems.parsing import ParsingTrees
from t2t.search.constraints import BatchConstraints
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.specs.constraints import (
    ANYTHING,
    OutputConstraint,
    TreeConstraint,
    TreeLabels,
    answers_constraint,
    phrase_constraint,
)
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.letters import WORDS, Letters, sharing, translator_of

# === Random weights give trees over exactly the input's words ===

LABELS = TokenEncoder(["NP", "/NP", "NN", "S", "/S", "DT", "/X", "/", ","])
SENTENCES = ["a", "a b c d e f g h", "b ( c )", "h g", "a b\tc  d", "never seen", "a b c d e f g h a b c d e f g h"]


def parsing(problem_class=ParsingTrees):
    problem = problem_class()
    problem.name = "parsing_trees"
    return problem.with_encoders({INPUTS: WORDS, TARGETS: LABELS})


@pytest.fixture(scope="module")
def translator():
    return translator_of(parsing(), num_hidden_layers=1)


def words_in(text):
    return text.replace("(", "-LRB-").replace(")", "-RRB-").split()


def test_the_labels_of_a_vocabulary():
    found = tree_labels(LABELS)
    ids = {LABELS.piece(number): number for number in range(LABELS.vocab_size)}
    assert {LABELS.piece(tag) for tag in found.tags} == {"NN", "DT", "/", ","}, "/X ends no phrase that can begin"
    assert dict(found.phrases) == {ids["NP"]: ids["/NP"], ids["S"]: ids["/S"]}
    assert parsing().constraint(" a  b\t") == TreeConstraint(found, 2)


def test_a_constrained_search_compiles_no_other(translator):
    fresh = Translator(translator.problem, translator.model, translator.hparams)
    fresh.warm_up(fresh.encode(SENTENCES))
    fresh.translate(SENTENCES)
    (search,) = fresh.engine._searches.values()
    assert len(search._programs) == 1


def slow(**changes):
    return pytest.param(changes, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_best": 3, "extra_length": 0}, slow(n_best=2), slow(decode_method="greedy"), slow(extra_length=3),
        slow(n_best=3, decode_method="sample", decode_batch_size=1), slow(min_output_length=9),
    ],
    ids=str,
)  # fmt: skip
def test_every_output_is_a_tree_over_exactly_the_words(translator, changes):
    """Also if there is room only for tags, and in batches of one sentence."""
    for source, found in zip(SENTENCES, translator.translate(SENTENCES, **changes), strict=True):
        assert found
        for hypothesis in found:
            assert not hypothesis.repaired
            assert hypothesis.ids[-1] == EOS_ID
            assert parse_tree(hypothesis.text).words() == words_in(source)


def test_without_it_outputs_have_to_be_repaired(translator):
    free = translator.translate(SENTENCES, constrain_output=False, extra_length=0)
    assert all(best.repaired for best, *_ in free)
    assert [parse_tree(best.text).words() for best, *_ in free] == list(map(words_in, SENTENCES))


@pytest.mark.slow
def test_a_batch_of_n_is_n_batches_of_one(translator):
    together = translator.translate(SENTENCES, 2)
    assert [[one.ids for one in found] for found in together] == [
        [one.ids for one in translator.translate([source], 2)[0]] for source in SENTENCES
    ]
    from_ids = translator.translate_ids(translator.encode(SENTENCES[:2]), 2)
    assert [[one.text for one in found] for found in from_ids] == [
        [one.text for one in found] for found in together[:2]
    ]


def test_words_beyond_the_longest_output_are_added_and_said_to_be(translator):
    ((best,),) = translator.translate(["a b c d e f g h"], max_input_length=6)
    assert best.repaired
    assert parse_tree(best.text).words() == list("abcdefgh")


def test_a_prefix_is_kept_and_gone_on_with(translator):
    first, second = translator.translate(["a b c", "h g"], 3, prefixes=["S NP", "NN"])
    assert not any(one.repaired for one in (*first, *second))
    assert {LABELS.decode(one.ids[:2]) for one in first} == {"S NP"}
    assert {LABELS.decode(one.ids[:1]) for one in second} == {"NN"}
    with refused(2):
        translator.translate(["a"], prefixes=["NN NN"])


@pytest.mark.parametrize("changes", [{"no_repeat_ngram_size": 2}, {"shortlist": True}], ids=str)
def test_what_could_leave_no_output_is_refused(translator, changes):
    with refused(*changes, "constrain_output=false"):
        translator.translate(["a b"], **changes)


def test_the_tree_of_a_beam_has_what_is_allowed_alone(translator):
    nodes = beam_tree(translator, "a b c", extra_length=3)
    whole = [node for node in nodes if node.state == FINISHED]
    assert whole
    assert not any(translator.problem.finish("a b c", LABELS.decode(node.ids)).repaired for node in whole)


class Glossary(Letters):
    """Letters to letters: what is written for an `a` holds `h g`, and for anything else it is free."""

    def constraint(self, source):
        (term,) = self.encoders[TARGETS].encode_batch(["h g"])
        return phrase_constraint([term], [], WORDS.vocab_size) if "a" in source.split() else None


@pytest.fixture(scope="module")
def glossary(letters_translator):
    return sharing(letters_translator, Glossary().with_encoders({INPUTS: WORDS, TARGETS: WORDS}))


def test_an_input_without_a_constraint_leaves_those_of_the_others(glossary, letters_translator):
    settings, hparams = glossary.settings()
    how = (glossary.problem, glossary.facts, settings, hparams)
    constrained = glossary.problem.constraint("a")
    assert constraints_of(*how, [()] * 3, ["b", "a", "c"]) == [ANYTHING, constrained, ANYTHING]
    assert constraints_of(*how, [()] * 2, ["b", "c"]) is None
    sound = Glossary().with_encoders({TARGETS: WORDS})  # inputs that are no text have an empty one
    assert constraints_of(sound, *how[1:], [np.zeros(10, np.float32)]) is None
    assert sound.decode_input(np.zeros(10, np.float32)) == ""
    assert constraints_of(letters_translator.problem, *how[1:], [[5]], None) is None, "problems that say nothing"


@pytest.mark.slow
def test_outputs_do_not_depend_on_neighbours_without_a_constraint(glossary):
    texts = ["a b", "b c d", "c a"]
    together = [best.text for (best,) in glossary.translate(texts)]
    assert together == [glossary.translate([text])[0][0].text for text in texts]
    assert ["h g" in text for text in together] == [True, False, True]
    assert together[1] == glossary.translate([texts[1]], constrain_output=False)[0][0].text


def test_single_outputs_of_a_problem_with_constraints_have_no_others_whatever_their_input(glossary):
    for source in ("a", "b"):
        with refused("constraints", "letters"):
            glossary.translate([source], constraints=[{"avoid": ["c"]}])
    with refused("constraints", "letters"):
        glossary.check_terms(OutputTerms(avoid=("c",)))


class FreeB(ParsingTrees):
    """Parsing trees, but for `b` any output."""

    def constraint(self, source):
        return None if source == "b" else super().constraint(source)


def test_a_tree_beside_an_input_without_a_constraint_is_refused(translator):
    partly_free = sharing(translator, parsing(FreeB))
    with refused("parsing_trees", 2, 3):
        partly_free.translate(["a", "b", "c"])
    assert partly_free.translate(["b"]), "alone, it is free"


class OwnConstraint(OutputConstraint):
    """As a plug-in may define one."""

    def shortest(self, prefix=()):
        return 1

    def fitted(self, longest):
        return self


TREE = TreeConstraint(TreeLabels((5,), ((3, 4),)), 2)
OTHER_TREE = dataclasses.replace(TREE, labels=TreeLabels((5,), ()))


@pytest.mark.parametrize(
    ("constraints", "kinds"),
    [
        ([TREE, TREE, OTHER_TREE], []),
        ([TREE, ANYTHING], ["FiniteConstraint", "TreeConstraint"]),
        ([OwnConstraint(), answers_constraint([(5,)])], ["FiniteConstraint", "OwnConstraint"]),
        ([OwnConstraint()], ["OwnConstraint"]),
    ],
    ids=["labels", "trees beside finite", "own beside finite", "own"],
)
def test_mixtures_that_a_call_cannot_search_are_refused(constraints, kinds):
    with refused(len(constraints), *kinds):
        BatchConstraints.build(constraints, 9)
    same = [TREE, dataclasses.replace(TREE, labels=TreeLabels((5,), ((3, 4),)), words=3)]
    assert BatchConstraints.build(same, 9).shortest.tolist() == [3, 4], "equal labels are the same"


@pytest.mark.parametrize("shard", [None, Shard(1, 2)], ids=str)
def test_a_prefix_that_the_problem_forbids_is_found_before_anything_is_decoded(translator, tmp_path, shard):
    source, target, prefixes = (str(tmp_path / name) for name in ("in", "out", "begins"))
    (tmp_path / "in").write_text("a b\nc\n\nd\na\n")
    job = Job(source=source, target=target, prefixes=prefixes, window=1, shard=shard)
    # Line 3 has no input, and so no output.
    for begins, wrong, changes in (("/NP", 4, {}), ("NP", 5, {}), ("NP", 5, {"beam_size": 1})):
        (tmp_path / "begins").write_text(f"NP\nNN\n/NP\n{begins}\nNN NN\n")
        with refused("--target_prefix_file=", prefixes, wrong):
            decode_file(translator, dataclasses.replace(job, changes=changes))
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.glob("out.shard*"))


@pytest.mark.slow
def test_many_made_up_sentences(translator):
    rng = random.Random(3)
    sentences = [" ".join(rng.choices("abcdefgh", k=rng.randint(1, 12))) for _ in range(40)]
    found = translator.translate(sentences, beam_size=2, extra_length=rng.randint(0, 6))
    assert not any(best.repaired for best, *_ in found)


# === Parsers read sentences whatever their white space, and given trees as those that they write ===

PARSED = ["the dog runs .", "a cat sleeps ( in the house )", "dogs"]
SPACED = ["the  dog runs .", " the dog runs . ", "the\tdog runs .", "\n the dog\r\nruns \v . \f"]
"""The first sentence with other white space."""
PIECES = SentencePieceEncoder.build([*PARSED] * 3, 300)
PARSER_LABELS = TokenEncoder(["NP", "/NP", "NN", "S", "/S", "DT", "VP", "/VP", "VBZ"])
LINEAR = ["S NP DT NN /NP VP VBZ /VP NN /S", "S NP DT NN /NP VP VBZ NN NN NP DT NN /NP NN /VP /S", "NN"]


@pytest.fixture(scope="module")
def parser():
    problem = ParsingTrees(train_trees="-", dev_trees="-")
    problem.with_encoders({INPUTS: PIECES, TARGETS: PARSER_LABELS})
    return translator_of(problem, positions="words", read_next_word=True, num_hidden_layers=1)


@pytest.fixture(scope="module")
def pairs(parser):
    """Each sentence and a tree over it, in brackets."""
    finish = parser.problem.finish
    return [(source, finish(source, labels).text) for source, labels in zip(PARSED, LINEAR, strict=True)]


def test_white_space_is_one_space(parser):
    """As many words begin in the ids as the constraint counts in the text."""
    rows = parser.encode([*PARSED[:1], *SPACED])
    assert rows == rows[:1] * (1 + len(SPACED))
    starts = parser.facts.spec.inputs.word_starts
    assert sum(starts[number] == "1" for number in rows[0]) == parser.problem.constraint(SPACED[0]).words == 4


def test_a_tree_is_read_as_its_labels(parser, pairs):
    assert pairs[2] == ("dogs", "(TOP (NN dogs))")
    sources, trees = zip(*pairs, strict=True)
    assert parser.encode_targets(trees, sources) == PARSER_LABELS.encode_batch(LINEAR)
    with refused("targets[1]:", "'(S'", 1):
        parser.score([("dogs", "NN"), ("dogs", "(S")])


def test_an_output_begins_with_the_labels_of_a_tree(parser, pairs):
    assert parser.encode_prefixes([pairs[0][1], "S NP", ""]) == PARSER_LABELS.encode_batch([LINEAR[0], "S NP", ""])
    with refused("(S'", 2):
        parser.encode_prefixes(["(TOP (S"])


def job_of(pairs, folder):
    (folder / "in").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return FileJob(source=str(folder / "in"), target=str(folder / "out"))


def test_a_wrong_tree_in_a_file_is_named_before_anything_is_written(parser, pairs, tmp_path):
    job = job_of([*pairs, ("the dog", "(TOP (NN dog))")], tmp_path)
    with refused(tmp_path / "in:", 4, "'(TOP", 1, 2):
        score_file(parser, job)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_tree_has_the_score_and_the_attention_of_its_labels(parser, pairs, tmp_path):
    labels = list(zip(PARSED, LINEAR, strict=True))
    assert parser.score(pairs) == parser.score(labels)
    score_file(parser, job_of(pairs, tmp_path))
    scores = [float(line) for line in (tmp_path / "out").read_text().split()]
    assert scores == pytest.approx(parser.score(labels), abs=1e-5)
    looked = [parser.attend(*pair) for pair in (pairs[0], labels[0])]
    assert looked[0].ids == looked[1].ids
    assert [one.target for one in looked] == [pairs[0][1], LINEAR[0]]


@pytest.mark.slow
def test_what_the_search_writes_has_its_score_whatever_the_white_space(parser):
    sources = [*PARSED, *SPACED]
    found = parser.translate(sources, 2)
    for other in found[len(PARSED) :]:
        assert [one.text for one in other] == [one.text for one in found[0]]
    written = [(source, one) for source, outputs in zip(sources, found, strict=True) for one in outputs]
    scores = parser.score([(source, one.text) for source, one in written])
    assert scores == pytest.approx([one.log_prob for _, one in written], rel=1e-5)
