"""Regular expressions over ids, against Python's `re` on the texts of these ids."""

import itertools
import random
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t.specs import UNK_ID
from t2t.specs.constraints import DEAD
from t2t.text.byte import ByteEncoder
from t2t.text.regular_expressions import byte_ranges, regex_constraint
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.subword import SubwordEncoder
from t2t.text.words import TokenEncoder
from tests.errors import refused

LEAVES = [
    "a", "b", "é", "☃", "😀", ".", "[ab]", "[^a]", r"\d", r"\W", " ", "[a-c0-9é-☃]", r"[^\wé]", r"\.", "[]a]", "[a-]",
    "",
]  # fmt: skip
TEXTS = ["a", "b", "c", "é", "☃", "😀", " ", "1", ".", "\n", "]", "-", "ÿ", "\ud7ff", "\ue000", "_"]

patterns = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "".join(f"(?:{part})" for part in parts)),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "{0,1}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)


def accepts(constraint, ids):
    state = 0
    for token in ids:
        state = constraint.edges[state].get(token, constraint.defaults[state])
        if state == DEAD:
            return False
    return state in constraint.final


@given(patterns, st.lists(st.lists(st.sampled_from(TEXTS), max_size=5).map("".join), min_size=1, max_size=8))
@example("a{2}", ["a", "aa", "aaa"])
@example("a*[^a]", ["aab", "b", "aa"])
@settings(max_examples=60)
def test_bytes_are_accepted_where_the_text_matches(pattern, texts):
    encoder = ByteEncoder()
    constraint = regex_constraint(pattern, encoder)
    for text in texts:
        assert accepts(constraint, encoder.encode(text)) == bool(re.fullmatch(pattern, text, re.ASCII)), text


@pytest.fixture(scope="module")
def pieces():
    lines = ["the cat and the dog", "cats, dogs and 12 birds", "a cat's 3 dogs", "é 1 the"] * 40
    return SentencePieceEncoder.build(lines, 300)


@pytest.mark.parametrize("pattern", [
    *(r"[a-z ]*", r"the (cat|dog)s?", r".*\d+.*", r" *the.*", r"[^e]+", r"(cat|bird)s?, \d{1,2}", r".{3,5}", "é.*|"),
    r"\s?\S+",
])  # fmt: skip
def test_pieces_are_accepted_where_their_text_matches(pieces, pattern):
    """For random ids and ids of similar texts, including segmentations that no encoder would choose."""
    constraint, rng = regex_constraint(pattern, pieces), random.Random(1)
    texts = ["the cat", "the dogs", "a 3 b", " the", "  the é", "", " ", "é1", "cats, 12", "and dogs"]
    rows = [pieces.encode(text) for text in texts]
    rows += [[rng.randrange(3, pieces.vocab_size) for _ in range(rng.randint(1, 4))] for _ in range(200)]
    rows += [[rng.choice([*pieces.encode(text), pieces.encode(" x")[0]]) for _ in range(4)] for text in texts[:4] * 40]
    found = [(pieces.decode_ids(row), accepts(constraint, row)) for row in rows]
    assert {accepted for _, accepted in found} == {True, False}
    for text, accepted in found:
        if "\ufffd" not in text:
            assert accepted == bool(re.fullmatch(pattern, text, re.ASCII)), text


def test_words_are_accepted_where_their_text_matches():
    encoder = TokenEncoder(["the", "cat", "a.b", "12"])
    for pattern in (r"the( cat)*", r"\d+( .*)?", r"\S*", r"(the|cat) (a\.b|12)", ""):
        constraint = regex_constraint(pattern, encoder)
        for row in itertools.chain.from_iterable(itertools.product(range(3, 7), repeat=n) for n in range(4)):
            assert accepts(constraint, row) == bool(re.fullmatch(pattern, encoder.decode_ids(list(row)), re.ASCII))
    assert not accepts(regex_constraint(".*", encoder), [UNK_ID])


def is_within(spelled, ranges):
    return len(spelled) == len(ranges) and all(a <= b <= c for b, (a, c) in zip(spelled, ranges, strict=True))


def test_ranges_of_characters_are_spelled_once():
    bounds = [0, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF]
    rng = random.Random(2)
    for first, last in itertools.combinations_with_replacement(bounds, 2):
        if first <= 0xD7FF and last >= 0xE000:
            continue
        ranges = list(byte_ranges((first, last)))
        near = [code + shift for code in (first, last) for shift in (-1, 0, 1)] + [
            rng.randint(first, last) for _ in range(20)
        ]
        for code in near:
            if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                spelled = chr(code).encode()
                matching = [one for one in ranges if is_within(spelled, one)]
                assert len(matching) == (first <= code <= last)


def test_the_shortest_output_is_known_and_vocabularies_whose_texts_are_not_their_pieces_are_refused():
    encoder = ByteEncoder()
    assert regex_constraint("a{3,}b", encoder).shortest() == 5
    assert regex_constraint("a{3,}b", encoder).shortest(encoder.encode("aaaaa")) == 7
    assert regex_constraint("a{3,}b", encoder).shortest(encoder.encode("b")) is None
    assert regex_constraint("[^\\w\\W]", encoder).shortest() is None, "no character is neither"
    with refused("regex:", "subword"):
        regex_constraint("a", SubwordEncoder.build(["a line of text"] * 3, 300))


@pytest.mark.parametrize(("pattern", "names"), [
    ("(a", ["2"]), ("a)", ["1"]), ("[a", []), ("*a", ["*:", r"\*"]), ("^a", ["^:"]), ("a*?", []), ("a{x", ["{"]),
    ("a{3,2}", ["1000"]), ("a{" + "1" * 5000 + "}", ["{" + "1" * 19, "1000"]), ("(?=a)", ["(?", "(?:...)"]),
    (r"(a)\1", [r"\1:"]), (r"\bx", [r"\b:"]), ("[b-a]", []), ("a\\", []), ("(a{900}){900}", ["2,048"]),
    ("(.*a.{15})", ["2,048"]), ("(" * 60, ["50"]),
])  # fmt: skip
def test_what_no_automaton_knows_is_refused(pattern, names):
    with refused("expression", *names):
        regex_constraint(pattern, ByteEncoder())
