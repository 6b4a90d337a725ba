"""Removes the parts of trees that are customarily not learnt or scored: traces, empty elements, function tags.

    (NP-SBJ-1 (-NONE- *T*-2) (NN dog))   becomes   (NP (NN dog))

Bies et al. 1995, "Bracketing guidelines for Treebank II style", sections 1.1 and 2 (function tags), 4 (null elements).
"""

import re
from collections.abc import Callable

from t2t.features.treebank.trees import OUTER_LABELS, ParseTree, Part

EMPTY_TAG = "-NONE-"
"""Tag of empty elements: traces, dropped subjects, ellipses."""

_ESCAPE = re.compile(r"-[^-]+-")


def bare_label(label: str) -> str:
    """Removes function tags and indices from a label: `NP-SBJ=2` becomes NP; `-LRB-` is kept."""
    if not label or _ESCAPE.fullmatch(label):
        return label
    return re.split(r"[-=]", label, maxsplit=1)[0] or label


def cleaned(tree: ParseTree) -> ParseTree | None:
    """Removes empty elements, nodes that are empty without them, and function tags; returns None if nothing is left."""
    return rebuilt(tree, bare_label, EMPTY_TAG)


def rebuilt(
    tree: ParseTree, relabel: Callable[[str], str] = lambda label: label, without_tag: str | None = None
) -> ParseTree | None:
    """Copies a tree with `relabel` applied, without words tagged `without_tag` and empty nodes; None if empty."""
    open_nodes: list[tuple[str, list[ParseTree | str]]] = [("", [])]
    for part, text in tree.walk():
        if part is Part.OPEN:
            open_nodes.append((text, []))
        elif part is Part.WORD:
            if open_nodes[-1][0] != without_tag:
                open_nodes[-1][1].append(text)
        else:
            label, children = open_nodes.pop()
            if children:
                open_nodes[-1][1].append(ParseTree(relabel(label), tuple(children)))
    found = open_nodes[0][1]
    return next((root for root in found if isinstance(root, ParseTree)), None)


def inner_phrases(tree: ParseTree) -> tuple[ParseTree, ...]:
    """Returns the nodes below the outer node that treebanks put around a sentence, or the tree itself without one."""
    while tree.label in OUTER_LABELS and not tree.is_tag:
        nodes = tuple(child for child in tree.children if isinstance(child, ParseTree))
        if len(nodes) != 1:
            return nodes
        tree = nodes[0]
    return (tree,)
