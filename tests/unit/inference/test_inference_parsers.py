"""Parsers read sentences whatever their white space, and given trees as those that they write."""

import pytest

from t2t.inference.files.scoring import score_file
from t2t.inference.files.windows import FileJob
from t2t.problems.parsing import ParsingTrees
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.token import TokenEncoder
from tests.errors import refused
from tests.letters import translator_of

SENTENCES = ["the dog runs .", "a cat sleeps ( in the house )", "dogs"]
SPACED = ["the  dog runs .", " the dog runs . ", "the\tdog runs .", "\n the dog\r\nruns \v . \f"]
"""The first sentence with other white space."""
PIECES = SentencePieceEncoder.build([*SENTENCES] * 3, 300)
LABELS = TokenEncoder(["NP", "/NP", "NN", "S", "/S", "DT", "VP", "/VP", "VBZ"])
LINEAR = ["S NP DT NN /NP VP VBZ /VP NN /S", "S NP DT NN /NP VP VBZ NN NN NP DT NN /NP NN /VP /S", "NN"]


@pytest.fixture(scope="module")
def translator():
    problem = ParsingTrees(train_trees="-", dev_trees="-")
    problem.with_encoders({INPUTS: PIECES, TARGETS: LABELS})
    return translator_of(problem, positions="words", read_next_word=True, num_hidden_layers=1)


@pytest.fixture(scope="module")
def pairs(translator):
    """Each sentence and a tree over it, in brackets."""
    finish = translator.problem.finish
    return [(source, finish(source, labels).text) for source, labels in zip(SENTENCES, LINEAR, strict=True)]


def test_white_space_is_one_space(translator):
    """As many words begin in the ids as the constraint counts in the text."""
    rows = translator.encode([*SENTENCES[:1], *SPACED])
    assert rows == rows[:1] * (1 + len(SPACED))
    starts = translator.facts.spec.inputs.word_starts
    assert sum(starts[number] == "1" for number in rows[0]) == translator.problem.constraint(SPACED[0]).words == 4


def test_a_tree_is_read_as_its_labels(translator, pairs):
    assert pairs[2] == ("dogs", "(TOP (NN dogs))")
    sources, trees = zip(*pairs, strict=True)
    assert translator.encode_targets(trees, sources) == LABELS.encode_batch(LINEAR)
    with refused("targets[1]:", "'(S'", 1):
        translator.score([("dogs", "NN"), ("dogs", "(S")])


def test_an_output_begins_with_the_labels_of_a_tree(translator, pairs):
    assert translator.encode_prefixes([pairs[0][1], "S NP", ""]) == LABELS.encode_batch([LINEAR[0], "S NP", ""])
    with refused("(S'", 2):
        translator.encode_prefixes(["(TOP (S"])


def job_of(pairs, folder):
    (folder / "in").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    return FileJob(source=str(folder / "in"), target=str(folder / "out"))


def test_a_wrong_tree_in_a_file_is_named_before_anything_is_written(translator, pairs, tmp_path):
    job = job_of([*pairs, ("the dog", "(TOP (NN dog))")], tmp_path)
    with refused(tmp_path / "in:", 4, "'(TOP", 1, 2):
        score_file(translator, job)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_tree_has_the_score_and_the_attention_of_its_labels(translator, pairs, tmp_path):
    labels = list(zip(SENTENCES, LINEAR, strict=True))
    assert translator.score(pairs) == translator.score(labels)
    score_file(translator, job_of(pairs, tmp_path))
    scores = [float(line) for line in (tmp_path / "out").read_text().split()]
    assert scores == pytest.approx(translator.score(labels), abs=1e-5)
    looked = [translator.attend(*pair) for pair in (pairs[0], labels[0])]
    assert looked[0].ids == looked[1].ids
    assert [one.target for one in looked] == [pairs[0][1], LINEAR[0]]


@pytest.mark.slow
def test_what_the_search_writes_has_its_score_whatever_the_white_space(translator):
    sources = [*SENTENCES, *SPACED]
    found = translator.translate(sources, 2)
    for other in found[len(SENTENCES) :]:
        assert [one.text for one in other] == [one.text for one in found[0]]
    written = [(source, one) for source, outputs in zip(sources, found, strict=True) for one in outputs]
    scores = translator.score([(source, one.text) for source, one in written])
    assert scores == pytest.approx([one.log_prob for _, one in written], rel=1e-5)
