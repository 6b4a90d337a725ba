"""A beam and the alternatives to a piece, as plain JSON."""

from collections.abc import Sequence
from typing import Any

from t2t.inference.beam_trace import Node, alternatives, beam_tree
from t2t.inference.translator import Translator
from t2t.specs.constants import TARGETS


def beam_json(translator: Translator, source: str, prefix: Sequence[int] = (), **changes: Any) -> dict[str, Any]:
    """Returns the tree of a search, see `beam_tree`; the parent of a node is its number, -1 for none."""
    nodes = beam_tree(translator, source, prefix, **changes)
    places = {node.ids: place for place, node in enumerate(nodes)}
    return {
        "source": source,
        "prefix": list(prefix),
        "nodes": [_node_json(translator, node, places) for node in nodes],
        "steps": max((len(node.ids) for node in nodes), default=0),
    }


def _node_json(translator: Translator, node: Node, places: dict[tuple[int, ...], int]) -> dict[str, Any]:
    text = translator.problem.decode_target(node.ids)
    complete = {"rank": node.rank, "score": node.score, "text": text, "ids": list(node.ids)}
    return {
        "parent": places.get(node.ids[:-1], -1),
        "id": node.ids[-1],
        "piece": translator.problem.encoders[TARGETS].piece(node.ids[-1]),
        "log_prob": node.log_prob,
        "state": node.state,
        "step": node.step,
        **(complete if node.score is not None else {}),
    }


def alternatives_json(translator: Translator, source: str, prefix: Sequence[int], count: int) -> dict[str, Any]:
    """Returns the likeliest continuations of a prefix, see `alternatives`."""
    piece = translator.problem.encoders[TARGETS].piece
    found = alternatives(translator, source, prefix, count)
    return {
        "prefix": [{"id": token, "piece": piece(token)} for token in prefix],
        "next": [{"id": token, "piece": piece(token), "log_prob": value} for token, value in found],
    }
