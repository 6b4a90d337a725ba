"""Data of figures as JSON: pieces of outputs, attention, trees, classes, beams, alternatives.

Legend: L layers, H heads, Q queries, K keys.
"""

import base64
import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.features.treebank_trees import ParseTree, Part, parse_tree
from t2t.files.atomic import os_errors_as_machine_errors, write_atomically
from t2t.files.lines import LineSource
from t2t.inference.alignment import word_numbers
from t2t.inference.attention import Attention, AttentionMap, NoAttentionError, attention_rollout
from t2t.inference.output_constraints import OutputTerms
from t2t.inference.search_steps import Node, alternatives, beam_tree, given_ids, token_log_probs
from t2t.inference.translator import Hypothesis, Translator
from t2t.problems.base import feature_of
from t2t.problems.parsing import Parsing
from t2t.specs import EOS_ID, TARGETS
from t2t.specs.features import FeatureKind
from t2t.studio.media import output_media
from t2t.studio.page import figures_page

NAMES = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "encoder_decoder": "Encoder-decoder attention",
}
"""Kind of attention -> its name in the paper (section 3.2.3)."""

_MOST_CLASSES = 20

WHOLE = 65535
"""Integer for a weight of 1."""


def figure_of(
    translator: Translator, title: str, source: str, target: str | Sequence[int] | None = None, **changes
) -> dict[str, Any]:
    """Returns the figure of an input and an output, with a note if the model has no attention.

    `target` is text, or ids with end of sequence; None for the model's best output. `given` is the number of the first
    pieces that the model did not choose, see `given_ids`: all of them in a `target` that does not continue the text.

    Raises:
        UserError: see `Translator.attend`.
    """
    figure: dict[str, Any] = {"title": title, "source": source, "note": None, "maps": None}
    figure["classes"] = None
    if answers_with_class(translator):
        count = min(_MOST_CLASSES, translator.facts.spec.targets.vocab_size)
        figure["classes"] = classes_json(translator.translate([source], n_best=count)[0])
    ids: Sequence[int]
    if figure["classes"]:
        target, changes = None, {}
    try:
        looked = translator.attend(source, target, **changes)
        text, ids = looked.target, looked.ids
        figure["maps"] = attention_json(looked)
    except NoAttentionError as error:
        text, ids = _output(translator, source, target, changes)
        figure["note"] = str(error)
    figure |= {"target": text, "log_prob": None, "pieces": None, "given": 0, "links": None}
    if translator.model.autoregressive:
        log_probs = token_log_probs(translator, source, ids)
        figure["log_prob"] = sum(log_probs)
        if translator.model.spec.targets.kind == FeatureKind.TOKENS:
            figure["pieces"] = _pieces(translator, ids, log_probs)
            given = given_ids(translator, source)
            figure["given"] = len(given) if list(ids[: len(given)]) == given else len(ids)
            figure["links"] = _links(translator, source, ids)
    figure["media"] = output_media(translator.problem, figure["target"])
    return figure | {"tree": _tree(translator, source, figure["target"], given=target is not None)}


def _output(
    translator: Translator, source: str, target: str | Sequence[int] | None, changes: dict[str, Any]
) -> tuple[str, Sequence[int]]:
    """Returns an output as text and ids, see `figure_of`."""
    if target is None:
        (best,) = translator.translate([source], **changes)[0]
        return best.text, best.ids
    if isinstance(target, str):
        (ids,) = translator.encode_targets([target], [source] if translator.has_inputs else None, lambda _: "target")
        return target, [*ids, EOS_ID]
    return translator.problem.decode_target(target), target


def _pieces(translator: Translator, ids: Sequence[int], log_probs: Sequence[float]) -> list[dict[str, Any]]:
    """Returns the pieces of an output, each with its log-probability and word index (None if it is in no word)."""
    problem = translator.problem
    encoder, begun = problem.encoders[TARGETS], len(problem.languages.marks().output_start)
    words: list[int | None] = [None] * len(ids)
    numbers = word_numbers(encoder, ids[begun:], feature_of(problem, TARGETS).join_words).tolist()
    words[begun : begun + len(numbers)] = numbers
    return [
        {"id": token, "piece": encoder.piece(token), "log_prob": log_prob, "word": word}
        for token, log_prob, word in zip(ids, log_probs, words, strict=True)
    ]


def _links(translator: Translator, source: str, ids: Sequence[int]) -> list[tuple[int, int]] | None:
    """Returns the word alignment as (input word, output word) indices; None if words cannot be aligned."""
    if not translator.has_inputs:
        return None
    with contextlib.suppress(UserError):  # a model without attention to inputs, or outputs that are not text
        rows = translator.input_rows(translator.encode([source]))
        join = feature_of(translator.problem, TARGETS).join_words
        (links,) = translator.aligner.links(rows, [ids], translator.hparams, sources=[source], join=join)
        return list(links)
    return None


def attention_json(looked: Attention) -> list[dict[str, Any]]:
    """Returns the attention maps in the order of the paper's figure 1, each with its rollout if available."""
    rollout = attention_rollout(looked.maps)
    return [_map_json(NAMES[kind], looked.maps[kind], rollout.get(kind)) for kind in NAMES if kind in looked.maps]


def _map_json(name: str, seen: AttentionMap, rollout: np.ndarray | None) -> dict[str, Any]:
    # transformer/encoder/layer_0/self_attention is called encoder/layer_0
    kinds = ("self_attention", "encdec_attention")
    layers = ([part for part in path.split("/")[1:] if part not in kinds] for path in seen.layers)
    return {
        "name": name,
        "queries": list(seen.queries),
        "keys": list(seen.keys),
        "layers": [f"{number}: {'/'.join(parts)}" for number, parts in enumerate(layers, start=1)],
        "heads": seen.weights.shape[1],
        "weights": packed(seen.weights),
        "rollout": None if rollout is None else packed(rollout),
    }


def packed(fractions: np.ndarray) -> str:
    """Encodes numbers from 0 to 1, in C order, as 16-bit little-endian integers in base64."""
    return base64.b64encode(np.round(fractions * WHOLE).astype("<u2").tobytes()).decode()


def answers_with_class(translator: Translator) -> bool:
    """Returns whether the outputs of a model are classes, all of which it scores at once."""
    return not translator.facts.autoregressive and translator.facts.spec.targets.kind == FeatureKind.LABEL


def classes_json(found: Sequence[Hypothesis]) -> list[dict[str, Any]]:
    """Returns the first classes of an answer, best first, with their probabilities."""
    return [
        {"name": one.text, "probability": math.exp(one.log_prob)}
        for one in found[:_MOST_CLASSES]
        if one.log_prob is not None
    ]


def _tree(translator: Translator, source: str, output: str, given: bool) -> dict[str, Any] | None:
    """Returns the tree of a parsing problem's output, None without one; a `given` output may lack the words."""
    problem = translator.problem
    if not isinstance(problem, Parsing):
        return None
    tree = parse_tree(problem.finish(source, problem.read_target(output, source)).text if given else output)
    return tree_json(tree) if isinstance(tree, ParseTree) else None


def tree_json(tree: ParseTree) -> dict[str, Any]:
    """Returns the nodes of a tree in written order, each with the index of its parent."""
    labels, parents, words, above = [], [], [], [-1]
    for part, text in tree.walk():
        if part == Part.CLOSE:
            above.pop()
            continue
        labels.append(text)
        parents.append(above[-1])
        words.append(part == Part.WORD)
        if part == Part.OPEN:
            above.append(len(labels) - 1)
    return {"labels": labels, "parents": parents, "words": words, "text": str(tree)}


def beam_json(
    translator: Translator,
    source: str,
    prefix: Sequence[int] = (),
    terms: OutputTerms | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """Returns the tree of a search, see `beam_tree`; `parent` is the index of a node's parent, -1 for none.

    `given` is the number of ids that all nodes begin with, and `prefix` comes after them, see `given_ids`.
    """
    nodes = beam_tree(translator, source, prefix, terms, **changes)
    indices = {node.ids: index for index, node in enumerate(nodes)}
    return {
        "source": source,
        "given": len(given_ids(translator, source)),
        "prefix": list(prefix),
        "nodes": [_node_json(translator, node, indices) for node in nodes],
        "steps": max((len(node.ids) for node in nodes), default=0),
    }


def _node_json(translator: Translator, node: Node, indices: dict[tuple[int, ...], int]) -> dict[str, Any]:
    text = translator.problem.decode_target(node.ids)
    complete = {"rank": node.rank, "score": node.score, "text": text, "ids": list(node.ids)}
    return {
        "parent": indices.get(node.ids[:-1], -1),
        "id": node.ids[-1],
        "piece": translator.problem.encoders[TARGETS].piece(node.ids[-1]),
        "log_prob": node.log_prob,
        "state": node.state,
        "step": node.step,
        **(complete if node.score is not None else {}),
    }


def alternatives_json(translator: Translator, source: str, prefix: Sequence[int], count: int) -> dict[str, Any]:
    """Returns the most probable next pieces after a prefix, see `alternatives`."""
    piece = translator.problem.encoders[TARGETS].piece
    found = alternatives(translator, source, prefix, count)
    return {
        "prefix": [{"id": token, "piece": piece(token)} for token in prefix],
        "next": [{"id": token, "piece": piece(token), "log_prob": value} for token, value in found],
    }


MOST_FIGURES = 100
"""Largest number of figures on a page; one with a hundred pieces and 48 heads in total takes a megabyte."""


def write_attention_page(translator: Translator, title: str, source: LineSource, path: Path | str) -> int:
    """Draws the attention for each non-blank line, `source` or `source TAB target`; returns the number of figures.

    Raises:
        UserError: a line with more columns, no lines or too many, or a target that is too long.
        MachineError: the page cannot be written.
    """
    pairs = [
        _pair(line, number, source) for number, line in enumerate(source.lines(Counter()), start=1) if line.strip()
    ]
    if not 1 <= len(pairs) <= MOST_FIGURES:
        raise UserError(
            f"{source}: {len(pairs):,} lines to draw; a page shows from 1 to {MOST_FIGURES}, each a source or source "
            "TAB target",
            "give so many",
        )
    figures = [figure_of(translator, f"{number}", *pair) for number, pair in enumerate(pairs, start=1)]
    with os_errors_as_machine_errors(f"cannot write {path}"):
        write_atomically(Path(path), figures_page(title, figures).encode())
    return len(figures)


def _pair(line: str, number: int, source: LineSource) -> list[str]:
    columns = line.split("\t")
    if len(columns) > 2:
        raise UserError(
            f"{source}: line {number:,} has {len(columns)} columns; a line is a source, or source TAB target",
            "correct the file",
        )
    return columns
