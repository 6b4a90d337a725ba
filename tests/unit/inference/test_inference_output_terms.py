"""Required words, forbidden words and choices for single outputs: parsing, errors, and translators' outputs."""

import dataclasses
import json
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.errors import ArgumentError
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.files.shards import Shard
from t2t.inference.output_constraints import (
    KEYS,
    OutputTerms,
    constraints_of,
    constraints_of_terms,
    read_all_terms,
    read_terms,
    terms_of_line,
)
from t2t.inference.search_steps import partial_outputs
from t2t.inference.translator import Translator
from t2t.problems.parsing import ParsingTrees
from t2t.search.automata import MOST_CELLS, FiniteAutomaton
from t2t.specs import EOS_ID, INPUTS, TARGETS
from t2t.specs.constraints import ANYTHING, answers_constraint
from t2t.text.byte import ByteEncoder
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.letters import TEXTS as LINES
from tests.letters import WORDS, letters, letters_alone, marked, sharing, translator_of

TEXTS = [*LINES, "b c"]
TERMS = [
    {"constraints": ["g h", "c"]}, None, {"avoid": ["a", "b c"]}, {"choices": ["a b", "h"]},
    {"constraints": ["d d"], "avoid": ["e", "f"]}, {}, {"regex": "([a-c] )+h( .*)?"},
]  # fmt: skip


@pytest.fixture(scope="module")
def translator(letters_translator):
    return letters_translator


@pytest.fixture
def job(tmp_path):
    """Returns a function that makes a job of files with given contents: the input, and its side files."""

    def make(source, shard=None, **sides):
        for name, content in {"in": source, **sides}.items():
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        paths = {name: str(tmp_path / name) for name in sides}
        return Job(source=str(tmp_path / "in"), target=str(tmp_path / "out"), window=2, shard=shard, **paths)

    return make


def keeps_to(text, terms):
    terms = terms or {}
    padded = f" {text} "
    return (
        all(f" {phrase} " in padded for phrase in terms.get("constraints", ()))
        and not any(f" {phrase} " in padded for phrase in terms.get("avoid", ()))
        and ("choices" not in terms or text in terms["choices"])
        and ("regex" not in terms or re.fullmatch(terms["regex"], text))
    )


@pytest.mark.parametrize(
    "changes",
    [
        {}, pytest.param({"decode_method": "greedy"}, marks=pytest.mark.slow),
        pytest.param({"decode_method": "sample", "extra_length": 1}, marks=pytest.mark.slow),
    ],
    ids=str,
)  # fmt: skip
def test_each_output_keeps_to_its_own_terms_and_the_others_are_free(translator, changes):
    free = [best for (best,) in translator.translate(TEXTS, **changes)]
    found = [best for (best,) in translator.translate(TEXTS, constraints=TERMS, **changes)]
    assert all(keeps_to(one.text, terms) for one, terms in zip(found, TERMS, strict=True))
    assert not all(keeps_to(one.text, terms) for one, terms in zip(free, TERMS, strict=True))
    ended = [(text, one) for text, one in zip(TEXTS, found, strict=True) if one.ids[-1] == EOS_ID]
    given = translator.score_ids([WORDS.encode(text) for text, _ in ended], [one.ids[:-1] for _, one in ended])
    assert [one.log_prob for _, one in ended] == pytest.approx(given, rel=1e-4), "of the model among all ids"
    for n in (1, 5):
        assert found[n].ids == free[n].ids
        assert found[n].score == pytest.approx(free[n].score, rel=1e-4)
    without = translator.translate(TEXTS, constraints=[None] * len(TEXTS), **changes)
    assert [one.ids for (one,) in without] == [one.ids for one in free]


def test_a_prefix_counts_towards_what_is_held(translator):
    prefixes, terms = ["g", "c c", ""], [{"constraints": ["g h"]}, {"constraints": ["c"]}, {"avoid": ["a"]}]
    found = translator.translate(TEXTS[:3], prefixes=prefixes, constraints=terms)
    for (one,), prefix, asked in zip(found, prefixes, terms, strict=True):
        assert one.text.startswith(prefix)
        assert keeps_to(one.text, asked)
    with refused(1):
        translator.translate(["a"], prefixes=["b"], constraints=[{"avoid": ["b"]}])


def test_terms_are_of_the_text_after_a_language_code(translator):
    (code,) = start = tuple(WORDS.encode("e"))
    coded = sharing(translator, marked(output_start=start))
    terms = [{"choices": ["a b", "h"]}, {"avoid": ["a", "b c"]}, {"constraints": ["g h", "c"]}]
    for one in terms:
        coded.check_terms(read_terms(one, "here"))
    found = coded.translate(["a b"] * 3, constraints=terms)
    assert {best.ids[0] for (best,) in found} == {code}
    assert all(keeps_to(WORDS.decode(best.ids[1:]), one) for (best,), one in zip(found, terms, strict=True))
    (continued,) = coded.translate(["a b"], prefixes=["a"], constraints=terms[:1])
    assert WORDS.decode(continued[0].ids[1:]) == "a b"
    longest = {"choices": [" ".join("abc" * 341)]}  # 1,023 ids, and end of sequence, but for the code
    with refused("1,024", "max_input_length"):
        coded.check_terms(read_terms(longest, "here"))


def test_while_an_output_is_written_it_keeps_to_its_terms(translator):
    terms = OutputTerms(constraints=("h g", "d"))
    *_, last = partial_outputs(translator, "a b", terms=terms)
    ((best,),) = translator.translate(["a b"], constraints=[terms])
    assert last.texts == [best.text]
    assert keeps_to(best.text, {"constraints": ["h g", "d"]})


# === Reading ===
@pytest.mark.parametrize(
    ("value", "about"),
    [
        (["Haus"], ["['Haus']", "list", *KEYS]), ({"forced": ["x"]}, ["'forced'", *KEYS]),
        ({"avoid": "x"}, ["avoid", "'x'"]), ({"avoid": ["x", " "]}, ["avoid", "['x',"]),
        ({"regex": 3}, ["regex", 3]), ({"regex": ""}, ["regex", "''"]), ({"choices": []}, ["choices", "[]"]),
        ({"regex": "x", "avoid": ["y"]}, ["regex"]), ({"choices": ["x"], "avoid": ["y"]}, ["choices"]),
    ],
)  # fmt: skip
def test_terms_that_make_no_sense_are_refused(value, about):
    with refused("here:", *about):
        read_terms(value, "here")


def test_terms_as_they_are_read():
    assert read_terms({"avoid": ["a"], "constraints": []}, "here") == OutputTerms(avoid=("a",))
    assert terms_of_line(' {"constraints": ["a b"]}\n', "here") == OutputTerms(constraints=("a b",))
    assert terms_of_line(" \n", "here") is terms_of_line("{}", "here") is None
    with refused("here:", "JSON", *KEYS):
        terms_of_line("{a}", "here")
    assert read_all_terms(iter([None, {}]), 2) == [None, None]
    for given in ([None], 3):
        with refused("constraints", 2, by=ArgumentError):
            read_all_terms(given, 2)


@pytest.mark.parametrize("name", KEYS)
def test_half_a_surrogate_pair_is_another_character(name):
    line = json.dumps({name: "a\ud800" if name == "regex" else ["a\ud800"]})
    terms = terms_of_line(line, "here")
    assert getattr(terms, name) in ("a\ufffd", ("a\ufffd",))
    (found,) = constraints_of_terms([terms], ByteEncoder())
    assert found.shortest(ByteEncoder().encode("a\ufffd")) == (None if name == "avoid" else 5)


def test_equal_terms_share_an_automaton():
    first, second, nothing = constraints_of_terms([OutputTerms(("a",)), OutputTerms(("a",)), None], WORDS)
    assert first is second
    assert nothing is ANYTHING


@pytest.mark.parametrize("name", ["constraints", "avoid", "choices"])
def test_more_texts_than_an_automaton_has_states_are_refused_before_they_are_encoded(name):
    terms = OutputTerms(**{name: tuple(map(str, range(4096)))})
    with refused("4,096"):
        constraints_of_terms([terms], SimpleNamespace(encode_batch=lambda texts: []))  # encodes nothing else


def test_large_tables_are_refused_and_small_ones_shared():
    constraints = constraints_of_terms([OutputTerms(avoid=(letter,)) for letter in "abc"], WORDS)
    automaton, first_states = FiniteAutomaton.of_constraints([*constraints, constraints[0]])
    np.testing.assert_array_equal(first_states[:, 0], [1, 2, 3, 1])
    assert len(automaton.ids_before_end) == 4
    wide = [answers_constraint([(first + k,) for k in range(4000)]) for first in range(2, 10_002, 1000)]
    narrow = [answers_constraint([(2,) * 2000]) for _ in range(10)]
    with refused(20, f"{MOST_CELLS:,}"):
        FiniteAutomaton.of_constraints([*wide, *narrow])


# === What cannot be ===
@pytest.mark.parametrize(
    ("terms", "changes", "about"),
    [
        ({"constraints": ["a z"]}, {}, ["'a", "z'"]),
        ({"constraints": ["a b"], "avoid": ["b"]}, {}, ["constraints", "'a", "b'"]),
        ({"constraints": [" ".join("abcdefgh" * 200)]}, {}, ["1,024", "max_input_length"]),
        ({"regex": "z"}, {}, ["regex", "'z'"]),
        ({"avoid": ["a"]}, {"no_repeat_ngram_size": 2}, ["no_repeat_ngram_size=2"]),
        ({"avoid": ["a"]}, {"shortlist": True}, ["shortlist=True"]),
    ],
)
def test_terms_that_no_output_keeps_to_are_refused(translator, terms, changes, about):
    with refused(*about):
        translator.translate(["a"], constraints=[terms], **changes)


@pytest.mark.parametrize("kind", ["alone", "trees"])
def test_models_whose_outputs_cannot_be_kept_to_terms(kind):
    trees = ParsingTrees().with_encoders({INPUTS: WORDS, TARGETS: TokenEncoder(["NP", "/NP", "NN"])})
    translator = translator_of(letters_alone() if kind == "alone" else trees)
    settings, hparams = translator.settings()
    with refused("constraints"):
        terms = [OutputTerms(avoid=("a",))]
        constraints_of(translator.problem, translator.facts, settings, hparams, [[5]], ["a"], terms=terms)


def test_a_problem_that_joins_its_pieces_takes_no_regex(translator):
    problem = letters()
    problem.continuation_mark = "@@"
    joining = sharing(translator, problem)
    joining.check_terms(OutputTerms(avoid=("a",)))
    with refused("regex", "letters", "@@"):
        joining.check_terms(OutputTerms(regex="a"))


# === Files ===
def test_a_file_of_terms(translator, job, tmp_path):
    lines = ['{"constraints": ["g h", "c"]}', "", '{"avoid": ["a", "b c"]}', '{"choices": ["a b", "h"]}', ""]
    texts = "".join(f"{text}\n" for text in [*TEXTS[:4], ""])
    decode_file(translator, job(texts, constraints="".join(f"{line}\n" for line in lines)))
    expected = translator.translate(TEXTS[:4], constraints=TERMS[:4])
    assert (tmp_path / "out").read_text().split("\n") == [*(best.text for (best,) in expected), "", ""]
    with refused("--constraints_file", tmp_path / "in", 1, 5):
        decode_file(translator, job(texts, constraints="\n"))
    with refused(f"--constraints_file={os.devnull}:"):  # a stream
        decode_file(translator, dataclasses.replace(job(texts), constraints=os.devnull))


@pytest.mark.parametrize(
    ("side", "line", "about"),
    [
        ("constraints", b'{"avoid": 3}', ["avoid", 3]), ("constraints", b'{"regex": "("}', ["'('"]),
        ("constraints", b'{"avoid": ["z"]}', ["'z'"]), ("constraints", b'{"avoid": ["\xe4"]}', ["UTF-8"]),
        ("prefixes", b"a \xe4", ["UTF-8"]), ("prefixes", b"a " * 2000, [2000]),
    ],
)  # fmt: skip
def test_a_wrong_line_of_a_side_file_is_found_before_anything_is_decoded(translator, job, tmp_path, side, line, about):
    sides = {side: b"\n" * 3 + line + b"\n\n"}
    flag = {"constraints": "--constraints_file", "prefixes": "--target_prefix_file"}[side]
    for shard in (None, Shard(1, 2)):  # the second half, lines 3 to 5
        with refused(f"{flag}=", tmp_path / side, 4, *about):
            decode_file(translator, job("a\n" * 5, shard, **sides))
        assert {path.name for path in tmp_path.iterdir()} <= {"in", side, "out.lines.json", f"out.{side}.json"}
    assert decode_file(translator, job("a\n" * 5, Shard(0, 2), **sides)).done == 2


def test_lines_with_the_same_constraint_are_checked_once(translator, job):
    checked = []

    class Noting(Translator):
        def check_terms(self, terms, n_best=1, **how):
            checked.append(terms and terms.regex)
            super().check_terms(terms, n_best, **how)

    noting = Noting(translator.problem, translator.model, translator.hparams, engine=translator.engine)
    lines = ['{"regex": "a( b)*"}', '{"regex": "c+"}'] * 4
    with refused(9, "'('"):  # so that nothing is decoded
        decode_file(noting, job("a b\n" * 9, constraints="\n".join([*lines, '{"regex": "("}']) + "\n"))
    assert list(filter(None, checked)) == ["a( b)*", "c+", "("]


def test_a_line_without_an_output_has_no_constraint(translator, job, tmp_path):
    terms = '{"constraints": ["zzz"]}\n{"constraints": ["a"]}\n'
    decode_file(translator, job("\n  \n", constraints=terms, prefixes="a\n" + "a " * 2000 + "\n"))
    assert (tmp_path / "out").read_text() == "\n\n"
    with refused("--constraints_file=", tmp_path / "constraints", 2, "constraints", 3):
        decode_file(translator, job("\n  \n", constraints='{"constraints": ["a"]}\n{"constraints": 3}\n'))


@pytest.mark.parametrize(
    ("terms", "begin", "at_fault"),
    [
        ('{"avoid": ["z"]}', "a", ["constraints"]),
        ('{"avoid": ["b"]}', "a " * 2000, ["prefixes"]),
        ('{"avoid": ["b"]}', "b", ["constraints", "prefixes"]),
    ],
)
def test_errors_name_the_file_at_fault(translator, job, tmp_path, terms, begin, at_fault):
    paths = [tmp_path / side for side in at_fault]
    with refused(2, *paths) as raised:
        decode_file(translator, job("a\nb\n", constraints=f"\n{terms}\n", prefixes=f"\n{begin}\n"))
    assert sum(str(tmp_path / side) in str(raised.value) for side in ("constraints", "prefixes")) == len(at_fault)
