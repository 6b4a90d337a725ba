"""Required words, forbidden words and choices for single outputs: parsing, errors, and translators' outputs."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.errors import ArgumentError, UserError
from t2t.inference import output_terms
from t2t.inference.files.job import Job, decode_file
from t2t.inference.files.shards import Shard
from t2t.inference.output_constraints import constraints_of
from t2t.inference.output_terms import (
    KEYS,
    OutputTerms,
    constraints_of_terms,
    read_all_terms,
    read_terms,
    terms_of_line,
)
from t2t.inference.partial_outputs import partial_outputs
from t2t.problems.parsing import ParsingTrees
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.specs.constraints.finite import ANYTHING
from t2t.text.byte import ByteEncoder
from t2t.text.language_codes import LanguageMarks
from t2t.text.regular_expressions.lifting import regex_constraint
from t2t.text.token import TokenEncoder
from tests.letters import TEXTS as LINES
from tests.letters import WORDS, letters, letters_alone, translator_of

TEXTS = [*LINES, "b c"]
TERMS = [
    {"constraints": ["g h", "c"]}, None, {"avoid": ["a", "b c"]}, {"choices": ["a b", "h"]},
    {"constraints": ["d d"], "avoid": ["e", "f"]}, {}, {"regex": "([a-c] )+h( .*)?"},
]  # fmt: skip


@pytest.fixture(scope="module")
def translator():
    return translator_of(letters())


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
def test_each_output_keeps_to_its_own_terms(translator, changes):
    free = translator.translate(TEXTS, **changes)
    found = translator.translate(TEXTS, constraints=TERMS, **changes)
    for n, (hypotheses, terms) in enumerate(zip(found, TERMS, strict=True)):
        assert all(keeps_to(one.text, terms) for one in hypotheses)
        if hypotheses[0].ids[-1] == EOS_ID:
            (log_prob,) = translator.score_ids([WORDS.encode(TEXTS[n])], [hypotheses[0].ids[:-1]])
            assert hypotheses[0].log_prob == pytest.approx(log_prob, rel=1e-4), "of the model among all ids"
    assert not all(keeps_to(one[0].text, terms) for one, terms in zip(free, TERMS, strict=True))


def test_what_is_free_beside_others_is_what_it_is_alone(translator):
    found, free = translator.translate(TEXTS, constraints=TERMS), translator.translate(TEXTS)
    for n in (1, 5):
        assert found[n][0].ids == free[n][0].ids
        assert found[n][0].score == pytest.approx(free[n][0].score, rel=1e-4)
    assert [one.ids for (one,) in translator.translate(TEXTS, constraints=[None] * len(TEXTS))] == [
        one.ids for (one,) in free
    ]


def test_a_prefix_counts_towards_what_is_held(translator):
    prefixes, terms = ["g", "c c", ""], [{"constraints": ["g h"]}, {"constraints": ["c"]}, {"avoid": ["a"]}]
    found = translator.translate(TEXTS[:3], prefixes=prefixes, constraints=terms)
    for (one,), prefix, asked in zip(found, prefixes, terms, strict=True):
        assert one.text.startswith(prefix)
        assert keeps_to(one.text, asked)
    with pytest.raises(
        UserError, match=r"^no output that begins with the 1 ids .*allows; give other constraints or give another begin"
    ):
        translator.translate(["a"], prefixes=["b"], constraints=[{"avoid": ["b"]}])


def test_terms_are_of_the_text_after_a_language_code(monkeypatch):
    coded = translator_of(letters())
    (code,) = start = tuple(WORDS.encode("e"))
    monkeypatch.setattr(type(coded.problem), "language_marks", lambda self: LanguageMarks(output_start=start))
    terms = [{"choices": ["a b", "h"]}, {"avoid": ["a", "b c"]}, {"constraints": ["g h", "c"]}]
    for one in terms:
        coded.check_terms(read_terms(one, "here"))
    found = coded.translate(["a b"] * 3, constraints=terms)
    assert {best.ids[0] for (best,) in found} == {code}
    assert all(keeps_to(WORDS.decode(best.ids[1:]), one) for (best,), one in zip(found, terms, strict=True))
    (continued,) = coded.translate(["a b"], prefixes=["a"], constraints=terms[:1])
    assert WORDS.decode(continued[0].ids[1:]) == "a b"
    longest = {"choices": [" ".join("abc" * 341)]}  # 1,023 ids, and end of sequence, but for the code
    with pytest.raises(
        UserError, match=r"^no output .* within the 1,024 ids that max_input_length allows; give other constr"
    ):
        coded.check_terms(read_terms(longest, "here"))


def test_while_an_output_is_written_it_keeps_to_its_terms(translator):
    terms = OutputTerms(constraints=("h g", "d"))
    *_, last = partial_outputs(translator, "a b", terms=terms)
    ((best,),) = translator.translate(["a b"], constraints=[terms])
    assert last.texts == [best.text]
    assert keeps_to(best.text, {"constraints": ["h g", "d"]})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (["Haus"], r"here: \['Haus'\] is of type list; give an object with constraints, avoid, choices, regex"),
        ({"forced": ["x"]}, r"here: 'forced' is no constraint; there are constraints, avoid, choices, regex"),
        ({"avoid": "x"}, r"here: avoid 'x': a list of texts is wanted, none of them empty"),
        ({"avoid": ["x", " "]}, r"here: avoid \['x', ' '\]: a list of texts is wanted, none of them empty"),
        ({"regex": 3}, "here: regex 3: a text is wanted, not an empty one"),
        ({"regex": ""}, "here: regex '': a text is wanted, not an empty one"),
        ({"choices": []}, r"here: choices \[\]: there is nothing to choose from; give one text or more"),
        ({"regex": "x", "avoid": ["y"]}, "here: regex leaves no room for other constraints; give regex alone"),
        ({"choices": ["x"], "avoid": ["y"]}, r"here: choices leaves no room for other constraints; give choices alone"),
    ],
)
def test_terms_that_make_no_sense_are_refused(value, message):
    with pytest.raises(UserError, match=message):
        read_terms(value, "here")


def test_terms_as_they_are_read():
    assert read_terms({"avoid": ["a"], "constraints": []}, "here") == OutputTerms(avoid=("a",))
    assert terms_of_line(' {"constraints": ["a b"]}\n', "here") == OutputTerms(constraints=("a b",))
    assert terms_of_line(" \n", "here") is terms_of_line("{}", "here") is None
    with pytest.raises(
        UserError, match=r"here: no JSON \(.*\); give an object with constraints, avoid, choices, regex, or an"
    ):
        terms_of_line("{a}", "here")
    with pytest.raises(ArgumentError, match=r"constraints for 2 inputs: give a list with an object for each"):
        read_all_terms([None], 2)
    assert read_all_terms(iter([None, {}]), 2) == [None, None]
    with pytest.raises(ArgumentError, match=r"constraints for 2 inputs: give a list with an object for each"):
        read_all_terms(3, 2)


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
    with pytest.raises(UserError, match=r"^a constraint on outputs that takes more than 4,096 states or "):
        constraints_of_terms([terms], SimpleNamespace(encode_batch=lambda texts: []))  # encodes nothing else


def test_terms_that_no_output_keeps_to_are_refused(translator):
    for terms, message in (
        ({"constraints": ["a z"]}, "constraint 'a z': the vocabulary of outputs cannot spell it; give other words"),
        (
            {"constraints": ["a b"], "avoid": ["b"]},
            r"constraints 'a b': an output with them holds what it has to avoid",
        ),
        (
            {"constraints": [" ".join("abcdefgh" * 200)]},
            r"^no output keeps to its constraints within the 1,024 ids that max_input_length allows; give other "
            r"constraints or raise max_input_length$",
        ),
    ):
        with pytest.raises(UserError, match=message):
            translator.translate(["a"], constraints=[terms])
    for changes, message in (
        (
            {"no_repeat_ngram_size": 2},
            r"no_repeat_ngram_size=2: it may forbid all that constraints of outputs allow; lea",
        ),
        ({"shortlist": True}, r"shortlist=True: it may forbid all that constraints of outputs allow; leave it out"),
    ):
        with pytest.raises(UserError, match=message):
            translator.translate(["a"], constraints=[{"avoid": ["a"]}], **changes)


def test_models_whose_outputs_cannot_be_kept_to_terms():
    trees = ParsingTrees().with_encoders({INPUTS: WORDS, TARGETS: TokenEncoder(["NP", "/NP", "NN"])})
    for problem, why in ((letters_alone(), "writes no outputs piece by piece"), (trees, "allows some outputs only")):
        translator = translator_of(problem)
        settings, hparams = translator.settings()
        how = (problem, translator.facts, settings, hparams)
        with pytest.raises(UserError, match=f"constraints: .*with this model {why}.*leave them out"):
            constraints_of(*how, [[5]], ["a"], terms=[OutputTerms(avoid=("a",))])


def test_a_file_of_terms(translator, tmp_path):
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in [*TEXTS[:4], ""]))
    lines = ['{"constraints": ["g h", "c"]}', "", '{"avoid": ["a", "b c"]}', '{"choices": ["a b", "h"]}', ""]
    (tmp_path / "terms").write_text("".join(f"{line}\n" for line in lines))
    job = Job(source=str(tmp_path / "in"), target=str(tmp_path / "out"), constraints=str(tmp_path / "terms"), window=2)
    decode_file(translator, job)
    expected = translator.translate(TEXTS[:4], constraints=TERMS[:4])
    assert (tmp_path / "out").read_text().split("\n") == [*(best.text for (best,) in expected), "", ""]
    (tmp_path / "terms").write_text("\n")
    with pytest.raises(
        UserError, match=r"--constraints_file=.*: it has 1 lines and .*in has 5; line n belongs to line n"
    ):
        decode_file(translator, job)


@pytest.mark.parametrize(
    ("side", "line", "message"),
    [
        ("constraints", b'{"avoid": 3}', "--constraints_file=.*side, line 4: avoid 3: a list of texts is wanted"),
        ("constraints", b'{"regex": "("}', "--constraints_file=.*side, line 4: regular expression '[(]', after 1 char"),
        ("constraints", b'{"avoid": ["z"]}', "--constraints_file=.*side, line 4: constraint 'z': the vocabulary"),
        ("constraints", b'{"avoid": ["\xe4"]}', "--constraints_file=.*side, line 4: it contains bytes that are no"),
        ("prefixes", b"a \xe4", "--target_prefix_file=.*side, line 4: it contains bytes that are no UTF-8; correct"),
        ("prefixes", b"a " * 2000, "--target_prefix_file=.*side, line 4: a beginning with 2000 ids: an output may"),
    ],
)
def test_a_wrong_line_of_a_side_file_is_found_before_anything_is_decoded(translator, tmp_path, side, line, message):
    (tmp_path / "in").write_text("a\n" * 5)
    (tmp_path / "side").write_bytes(b"\n" * 3 + line + b"\n\n")
    names = {"source": str(tmp_path / "in"), "target": str(tmp_path / "out"), side: str(tmp_path / "side")}
    with pytest.raises(UserError, match=message):
        decode_file(translator, Job(**names, window=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "side"]
    wrong = Shard(1, 2), Shard(0, 2)  # lines 3 to 5, and lines 1 and 2
    with pytest.raises(UserError, match=message):
        decode_file(translator, Job(**names, window=1, shard=wrong[0]))
    assert decode_file(translator, Job(**names, window=1, shard=wrong[1])).done == 2


def test_lines_with_the_same_constraint_are_checked_by_one_automaton(translator, tmp_path, monkeypatch):
    compiled = []

    def counted(pattern, encoder):
        compiled.append(pattern)
        return regex_constraint(pattern, encoder)

    monkeypatch.setattr(output_terms, "regex_constraint", counted)
    (tmp_path / "in").write_text("a b\n" * 9)
    lines = ['{"regex": "a( b)*"}', '{"regex": "c+"}'] * 4
    (tmp_path / "terms").write_text("\n".join([*lines, '{"regex": "("}']) + "\n")
    names = {"source": "in", "target": "out", "constraints": "terms"}
    with pytest.raises(UserError, match="terms, line 9: regular expression"):  # so that nothing is decoded
        decode_file(translator, Job(**{name: str(tmp_path / file) for name, file in names.items()}, window=1))
    assert compiled == ["a( b)*", "c+", "("]


def test_a_problem_that_joins_its_pieces_takes_no_regex(translator, monkeypatch):
    monkeypatch.setattr(translator.problem, "continuation_mark", "@@", raising=False)
    translator.check_terms(OutputTerms(avoid=("a",)))
    with pytest.raises(
        UserError, match=r"^regex: letters joins pieces of outputs that end in @@, and regular expressio"
    ):
        translator.check_terms(OutputTerms(regex="a"))


def test_a_line_without_an_output_has_no_constraint(translator, tmp_path):
    (tmp_path / "in").write_text("\n  \n")
    (tmp_path / "terms").write_text('{"constraints": ["zzz"]}\n{"constraints": ["a"]}\n')
    (tmp_path / "begins").write_text("a\n" + "a " * 2000 + "\n")
    names = {"source": "in", "target": "out", "constraints": "terms", "prefixes": "begins"}
    job = Job(**{name: str(tmp_path / file) for name, file in names.items()})
    decode_file(translator, job)
    assert (tmp_path / "out").read_text() == "\n\n"
    (tmp_path / "terms").write_text('{"constraints": ["a"]}\n{"constraints": 3}\n')
    with pytest.raises(UserError, match=r"^--constraints_file=\S*terms, line 2: constraints 3: a list of texts is"):
        decode_file(translator, job)


@pytest.mark.parametrize(
    ("terms", "begin", "message"),
    [
        ('{"avoid": ["z"]}', "a", r"--constraints_file=\S*terms, line 2: constraint 'z': the vocabulary of outputs"),
        ('{"avoid": ["b"]}', "a " * 2000, r"--target_prefix_file=\S*begins, line 2: a beginning with 2000 ids: an"),
        ('{"avoid": ["b"]}', "b", r"--constraints_file=\S*, line 2, --target_prefix_file=\S*, line 2: no output that"),
    ],
)  # fmt: skip
def test_errors_name_the_file_at_fault(translator, tmp_path, terms, begin, message):
    (tmp_path / "in").write_text("a\nb\n")
    (tmp_path / "terms").write_text(f"\n{terms}\n")
    (tmp_path / "begins").write_text(f"\n{begin}\n")
    names = {"source": "in", "target": "out", "constraints": "terms", "prefixes": "begins"}
    with pytest.raises(UserError, match=f"^{message}"):
        decode_file(translator, Job(**{name: str(tmp_path / file) for name, file in names.items()}))


def test_large_tables_are_refused_and_small_ones_shared(translator, monkeypatch):
    from t2t.decoding.constraints import finite_automaton

    constraints = constraints_of_terms([OutputTerms(avoid=(letter,)) for letter in "abc"], WORDS)
    automaton, first_states = finite_automaton.FiniteAutomaton.of_constraints([*constraints, constraints[0]])
    np.testing.assert_array_equal(first_states[:, 0], [1, 2, 3, 1])
    assert len(automaton.ids_before_end) == 4
    monkeypatch.setattr(finite_automaton, "MOST_CELLS", 2)
    with pytest.raises(UserError, match=r"constraints of 3 outputs take 4 cells, more than 2; ask for fewer outputs"):
        finite_automaton.FiniteAutomaton.of_constraints(constraints)
