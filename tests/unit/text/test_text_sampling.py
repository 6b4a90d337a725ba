"""Subword sampling, against probabilities worked out by hand."""

import io
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece

from t2t.text.byte import ByteEncoder
from t2t.text.sampling import SubwordSampler
from t2t.text.sentencepiece import SentencePieceEncoder, escape
from tests.errors import refused

LINES = ["low lower lowest new newer newest wide wider widest"] * 30 + ["the cat sat on the mat with a dog"] * 30
TEXTS = ["", "the newest cat", " a  b ", "\u00fc\u4e2d \u2581 x\u241b", "lowlow  aaaa\tthe", "<0x41> </s> <unk>"]


@pytest.fixture(scope="module")
def merges():
    return SentencePieceEncoder.build(LINES, 330)


@pytest.fixture(scope="module")
def unigram():
    return build_unigram(LINES, 310)


def build_unigram(lines, size, reserved=()):
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=made, model_type="unigram", vocab_size=size, pad_id=0, eos_id=1,
        unk_id=2, bos_id=-1, hard_vocab_limit=False, byte_fallback=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, required_chars="\u2581", minloglevel=2, user_defined_symbols=list(reserved),
    )  # fmt: skip
    return SentencePieceEncoder(made.getvalue())


def ended(encoder, text):
    return np.array([*encoder.encode(text), 1], np.int32)


def check_shares(weights, sample, encoder, count=10_000):
    """Checks that pieces are drawn with chances in proportion to weights, within four standard deviations."""
    drawn = Counter(tuple(map(encoder.piece, sample().tolist()[:-1])) for _ in range(count))
    total = sum(weights.values())
    assert drawn.keys() <= weights.keys()
    for pieces, weight in weights.items():
        chance = weight / total
        assert drawn[pieces] / count == pytest.approx(chance, abs=4 * (chance * (1 - chance) / count) ** 0.5 + 1e-4)


@pytest.mark.parametrize("kind", ["merges", "unigram"])
def test_the_text_stays_what_it_was(kind, request):
    encoder = request.getfixturevalue(kind)
    sampler, rng = SubwordSampler(encoder), np.random.default_rng(0)
    for text in TEXTS:
        for alpha in (0.0, 0.1, 0.5, 1.0):
            sampled = sampler(ended(encoder, text), alpha, rng)
            assert encoder.decode(sampled) == text
            assert sampled.dtype == np.int32
            assert sampled[-1] == 1
            assert sampled[:-1].min(initial=3) >= 3


def test_no_merge_left_out_is_the_encoding_itself_and_all_are_characters(merges):
    words = " ".join(LINES).split()
    draw, sampler, rng = random.Random(1), SubwordSampler(merges), np.random.default_rng(0)
    for text in [*TEXTS, *(" ".join(draw.choices(words, k=9)) for _ in range(100))]:
        assert sampler(ended(merges, text), 0.0, rng).tolist() == ended(merges, text).tolist()
    pieces = [merges.piece(one) for one in sampler(ended(merges, "the cat"), 1.0, rng).tolist()]
    assert pieces[:-1] == ["\u2581", "t", "h", "e", "\u2581", "c", "a", "t"]


def test_merges_are_left_out_as_often_as_by_hand(merges):
    """All possible results of merging `newer`, with probabilities from following algorithm 1."""
    sampler, rng, alpha = SubwordSampler(merges), np.random.default_rng(0), 0.3
    rank = {merges.piece(n): -n for n in range(259, merges.vocab_size)}  # lower ids were joined earlier

    def outcomes(pieces, chance, found):
        """Adds the probabilities of all results, over every choice of the next merge."""
        pairs = [(rank[a + b], -i) for i, (a, b) in enumerate(pairwise(pieces)) if a + b in rank]
        pairs.sort(reverse=True)
        for place, (_, i) in enumerate(pairs):  # this merge is applied, all better ones are dropped
            joined = [*pieces[:-i], pieces[-i] + pieces[-i + 1], *pieces[-i + 2 :]]
            outcomes(joined, chance * alpha**place * (1 - alpha), found)
        found[tuple(pieces)] += chance * alpha ** len(pairs)
        return found

    expected = outcomes(["\u2581", *"newer"], 1.0, Counter())
    assert sum(expected.values()) == pytest.approx(1)
    assert len(expected) > 5
    check_shares(expected, lambda: sampler(ended(merges, "newer"), alpha, rng), merges)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_segmentations_are_drawn_by_their_probabilities(unigram, alpha):
    """All segmentations of a short word: its probability is the product of those of its pieces, to the power alpha."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(unigram.to_bytes())
    score = {unigram.piece(n): processor.get_score(n) for n in range(259, unigram.vocab_size)}

    def segmentations(text):
        if not text:
            return [()]
        starts = [text[:n] for n in range(1, len(text) + 1) if text[:n] in score]
        return [(start, *others) for start in starts for others in segmentations(text[len(start) :])]

    chances = {
        one: np.exp(alpha * sum(score[piece] for piece in one))
        for one in segmentations(escape(" low newest").replace(" ", "\u2581"))
    }
    assert 3 < len(chances) <= 64
    sampler, rng = SubwordSampler(unigram), np.random.default_rng(0)
    check_shares(chances, lambda: sampler(ended(unigram, "low newest"), alpha, rng), unigram)


RESERVED = ("<2de>", "<2de", "\u2581<2", "owe", "\u00e9")
WITH_RESERVED = (" <2de> the cat", "<2de> the", "x<2de>lower newest", "lowest<2de<2de>é the", "éé newest")


def reserved_in(encoder, ids):
    return [piece for piece in map(encoder.piece, ids.tolist()) if piece in RESERVED]


@pytest.mark.parametrize("build", [SentencePieceEncoder.build, build_unigram], ids=["merges", "unigram"])
def test_user_defined_pieces_stay_whole(build):
    """Wherever they are in the text, also where one begins another or is part of a word of the training text."""
    encoder = build(LINES, 335, RESERVED)
    sampler, rng = SubwordSampler(encoder), np.random.default_rng(0)
    for text in WITH_RESERVED:
        expected, drawn = reserved_in(encoder, ended(encoder, text)), set()
        assert expected
        for alpha in (0.05, 0.5, 0.9) * 20:
            sampled = sampler(ended(encoder, text), alpha, rng)
            assert encoder.decode(sampled) == text
            assert reserved_in(encoder, sampled) == expected
            drawn.add(sampled.tobytes())
        assert len(drawn) > 1  # what is between them is sampled


def test_no_merge_left_out_is_the_encoding_also_with_user_defined_pieces():
    encoder = SentencePieceEncoder.build([line.replace("wide", "owed") for line in LINES], 335, RESERVED)
    draw, sampler, rng = random.Random(2), SubwordSampler(encoder), np.random.default_rng(0)
    texts = ["".join(draw.choices([*RESERVED, "low", "er", "the", "d", " ", "<", "2"], k=8)) for _ in range(200)]
    for text in [*WITH_RESERVED, *TEXTS, *texts]:
        assert sampler(ended(encoder, text), 0.0, rng).tolist() == ended(encoder, text).tolist()


def test_one_generator_gives_one_text_and_other_kinds_are_refused(merges):
    ids, sampler = ended(merges, "the newest cat on the widest mat"), SubwordSampler(merges)
    first, again, other = (sampler(ids, 0.5, np.random.default_rng(seed)).tolist() for seed in (1, 1, 2))
    assert first == again != other
    with refused("subword_sampling:", "byte;"):
        SubwordSampler(ByteEncoder())
