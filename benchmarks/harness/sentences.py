"""Test sentences as ids of a run's vocabulary."""

from collections import defaultdict

from benchmarks.harness.corpus import Corpus
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.specs import INPUTS, TARGETS, TEST

Ids = list[list[int]]
"""Ids of each sentence, without end of sequence."""


def encoded(corpus: Corpus, run: RunDir) -> tuple[Ids, Ids]:
    """Returns the ids of the sources and the targets of the test split."""
    pairs = list(corpus.pairs(TEST))
    encoders = run.encoders()
    return tuple(
        encoders[feature].encode_batch([pair[side] for pair in pairs]) for side, feature in enumerate((INPUTS, TARGETS))
    )


def of_equal_lengths(sentences: Ids, count: int, batch: int) -> Ids:
    """Returns the sentences of whole batches, about `count` in all; the sentences of each batch have equal length.

    The batches are spread evenly over all lengths for which there are enough sentences.

    Raises:
        UserError: there are too few sentences of equal lengths.
    """
    by_length = defaultdict(list)
    for ids in sentences:
        by_length[len(ids)].append(ids)
    batches = [
        same[start : start + batch]
        for _, same in sorted(by_length.items())
        for start in range(0, len(same) - batch + 1, batch)
    ]
    wanted = max(1, count // batch)
    if len(batches) < wanted:
        raise UserError(
            f"--sentences={count} --batch={batch}: the test text has {len(batches)} batches of one length each; "
            f"ask for fewer"
        )
    places = [round((number + 0.5) * len(batches) / wanted - 0.5) for number in range(wanted)]
    return [ids for place in places for ids in batches[place]]
