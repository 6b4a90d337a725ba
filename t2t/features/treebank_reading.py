"""Reads treebank files as pairs of a sentence and its linearised tree."""

import logging
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path

from t2t.errors import UserError
from t2t.features.treebank_linearisation import is_end, linearised, restored, words_of
from t2t.features.treebank_trees import Malformed, ParseTree, cleaned, parse_tree, read_tree_file
from t2t.specs import INPUTS, TARGETS

log = logging.getLogger("t2t")

MALFORMED = "malformed trees skipped"
"""Key of their count in `Source.tally`."""

_SHOWN = 10
_SHOWN_CHARACTERS = 60
_BEARABLE = 0.02
"""Share of malformed trees above which the files themselves are likely to be wrong."""
_LEAST = 20


def read_samples(
    paths: Iterable[Path], tally: Counter[str], keep_annotations: bool = False, known: Container[str] | None = None
) -> Iterator[dict[str, str]]:
    """Yields `{"inputs": words, "targets": labels}` of each tree of some files, in their order.

    Malformed trees are counted, logged with file and line, and skipped. A tree in which a phrase and a word have the
    same label cannot be restored from its labels; it is skipped, too, as is one that uses a label otherwise than
    `known`: labels and ends of phrases; None to know nothing yet.

    Raises:
        UserError: a file is missing or unreadable, or more than a few trees are malformed.
    """
    trees = 0
    for path in paths:
        for found in read_tree_file(path, tally):
            trees += 1
            if isinstance(found, Malformed):
                _count_malformed(found, tally, trees)
            elif (sample := sample_of(found, tally, keep_annotations)) is not None:
                if known is None or uses_as_known(sample[TARGETS], known):
                    yield sample
                else:
                    tally["trees with a phrase's label on a word or a word's on a phrase skipped"] += 1
    _check(tally[MALFORMED], trees, last="")


def sample_of(tree: ParseTree, tally: Counter[str], keep_annotations: bool = False) -> dict[str, str] | None:
    """Returns the sample of a tree; None if it has no words left, or cannot be restored from its labels."""
    kept = tree if keep_annotations else cleaned(tree)
    if kept is None:
        tally["trees without words skipped"] += 1
        return None
    words, labels = kept.words(), linearised(kept)
    back = restored(words_of(" ".join(words)), labels)
    if back.repaired or linearised(back.tree) != labels:
        tally["trees with one label for a phrase and a word skipped"] += 1
        return None
    return {INPUTS: " ".join(words), TARGETS: labels}


def labels_of_output(text: str, source: str | None, keep_annotations: bool = False) -> str:
    """Returns the labels of a parser's output, a tree in brackets over the words of a source; None to allow any words.

    Raises:
        UserError: it is no tree, has another number of words, or cannot be restored from its labels.
    """
    tree = parse_tree(text)
    if isinstance(tree, Malformed):
        raise _no_output(text, tree.reason)
    sample = sample_of(tree, Counter(), keep_annotations)
    if sample is None:
        raise _no_output(text, "it has no words, or one label for a phrase and a word")
    words = len(words_of(sample[INPUTS]))
    if source is not None and words != (wanted := len(words_of(source))):
        raise _no_output(text, f"the number of its words is {words:,}, that of the source's {wanted:,}")
    return str(sample[TARGETS])


def main_uses(counts: Mapping[str, int]) -> set[str]:
    """Returns labels and ends of phrases by their counts, without the ends of labels that are mostly of words."""
    return {label for label, count in counts.items() if not is_end(label) or 2 * count >= counts[label[1:]]}


def has_two_uses(counts: Mapping[str, int]) -> bool:
    """Returns whether a label is of phrases and of words, by the counts of labels and of ends of phrases."""
    return any(is_end(label) and count < counts[label[1:]] for label, count in counts.items())


def uses_as_known(labels: str, known: Container[str]) -> bool:
    """Returns whether a linearised tree has no unknown label or end, and none of a phrase (with an end) on a word."""
    used = set(labels.split())
    return all(label in known and (is_end(label) or f"/{label}" in used or f"/{label}" not in known) for label in used)


def _no_output(text: str, reason: str) -> UserError:
    shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return UserError(
        f"tree {shown!r}: {reason}",
        "give a tree in brackets, over as many words as the source has, or its labels, such as S NP NN /NP /S",
    )


def _count_malformed(found: Malformed, tally: Counter[str], trees: int) -> None:
    tally[MALFORMED] += 1
    if tally[MALFORMED] <= _SHOWN:
        log.warning("malformed tree skipped: %s", found)
    _check(tally[MALFORMED], trees, last=f", the last at {found}")


def _check(malformed: int, trees: int, last: str) -> None:
    if malformed >= _LEAST and malformed > _BEARABLE * trees:
        raise UserError(
            f"{malformed} of {trees} trees are malformed{last}",
            f"at most {_BEARABLE:.0%} may be: check that the files hold trees in Penn brackets",
        )
