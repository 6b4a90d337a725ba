"""Reads and writes phrase structure trees in Penn brackets: `(S (NP (DT A) (NN dog)) (VP (VBZ runs)))`.

The notation is the Penn Treebank's (Marcus, Santorini and Marcinkiewicz 1993). There is no recursion, so that trees of
any depth can be read, walked, compared and written. Escapes such as `-LRB-` are kept as they are.

Removes the parts of trees that are customarily not learnt or scored: traces, empty elements, function tags.

    (NP-SBJ-1 (-NONE- *T*-2) (NN dog))   becomes   (NP (NN dog))

Bies et al. 1995, "Bracketing guidelines for Treebank II style", sections 1.1 and 2 (function tags), 4 (null elements).
"""

import dataclasses
import enum
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from t2t.files.lines import read_lines

OUTER_LABELS = ("", "TOP", "ROOT", "S1")
"""Labels of the node that treebanks and parsers put around a sentence."""

_TOKEN = re.compile(r"[()]|[^ \t\r\n\f\v()]+")
_ATOM = re.compile(r"[^ \t\r\n\f\v()]+")


class Part(enum.Enum):
    """Kinds of steps of `ParseTree.walk`."""

    OPEN = "("
    WORD = "word"
    CLOSE = ")"


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class ParseTree:
    """A node and everything below it. Trees with the same notation are equal; they are never changed in place."""

    label: str
    """Phrase label or part-of-speech tag; empty only for an outer bracket without a label."""
    children: "tuple[ParseTree | str, ...]"
    """Nodes from left to right; or a single word, if the node is a part-of-speech tag."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))

    @property
    def is_tag(self) -> bool:
        """Whether the node is the part-of-speech tag of a word."""
        return len(self.children) == 1 and isinstance(self.children[0], str)

    def walk(self) -> "Iterator[tuple[Part, str]]":
        """Yields (OPEN, label), (WORD, word) and (CLOSE, label) in written order."""
        stack: list[tuple[str, Iterator[ParseTree | str]]] = [(self.label, iter(self.children))]
        yield Part.OPEN, self.label
        while stack:
            label, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                stack.pop()
                yield Part.CLOSE, label
            elif isinstance(child, str):
                yield Part.WORD, child
            else:
                stack.append((child.label, iter(child.children)))
                yield Part.OPEN, child.label

    def words(self) -> list[str]:
        """Returns the words from left to right."""
        return [text for part, text in self.walk() if part is Part.WORD]

    def tagged_words(self) -> list[tuple[str, str]]:
        """Returns (tag, word) from left to right; the tag is the label directly above the word."""
        found, above = [], ""
        for part, text in self.walk():
            if part is Part.OPEN:
                above = text
            elif part is Part.WORD:
                found.append((above, text))
        return found

    def __str__(self) -> str:
        """Returns the tree on one line, as `write_tree` does."""
        return write_tree(self)

    def __repr__(self) -> str:
        return f"<ParseTree {write_tree(self)}>"

    def __eq__(self, other: object) -> bool:
        return list(self.walk()) == list(other.walk()) if isinstance(other, ParseTree) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.walk()))


@dataclasses.dataclass(frozen=True)
class Malformed:
    """A tree that cannot be read; it is yielded in place of the tree."""

    name: str
    """The file, or another name of the text."""
    line: int
    """Number of the line on which the tree begins, from 1."""
    reason: str

    def __str__(self) -> str:
        """Returns `file:line: reason`."""
        return f"{self.name}:{self.line}: {self.reason}"


def read_tree_file(path: Path | str, tally: Counter[str]) -> Iterator[ParseTree | Malformed]:
    """Yields the trees of a file, plain or gzip; see `read_trees`.

    Raises:
        UserError: the file is missing, unreadable, broken gzip or UTF-16; the message names it.
    """
    return read_trees(read_lines(path, tally), str(path))


def parse_tree(text: str) -> ParseTree | Malformed:
    """Reads text that should hold exactly one tree."""
    found = list(read_trees(text.split("\n"), "text"))
    wrong = next((one for one in found if isinstance(one, Malformed)), None)
    if wrong is not None:
        return wrong
    return found[0] if len(found) == 1 else Malformed("text", 1, f"{len(found)} trees where one should be")


def read_trees(lines: Iterable[str], name: str) -> Iterator[ParseTree | Malformed]:
    """Yields trees in order, and a `Malformed` in place of each that cannot be read; reading then continues.

    A line may hold several trees, and a tree may span several lines. If a tree is still open and a line begins, without
    indentation, with a bracket that has the label of the tree's root or an outer label, then a new tree begins there,
    and the open one lacks a bracket: so a missing bracket does not swallow the rest of the file.

    Args:
        lines: with or without their ends.
        name: of the text, for `Malformed`.
    """
    reader = _Reader(name)
    for number, line in enumerate(lines, start=1):
        yield from reader.read(number, line)
    yield from reader.end()


def write_tree(tree: ParseTree) -> str:
    """Returns a tree on one line, with single spaces; `parse_tree` reads it back.

    Raises:
        ValueError: a label or word holds white space or a bracket, or is empty, or a node has no children.
    """
    pieces: list[str] = []
    before = Part.CLOSE
    for part, text in tree.walk():
        if part is Part.CLOSE:
            if before is Part.OPEN:
                raise ValueError(f"node {text!r} has no children: it cannot be written in brackets")
            pieces.append(")")
        else:
            outer = part is Part.OPEN and not pieces
            if not _ATOM.fullmatch(text) and not (outer and not text):
                raise ValueError(f"{text!r} cannot be in brackets: labels and words hold no white space and no bracket")
            pieces += [" " * bool(pieces), "(" * (part is Part.OPEN), text]
        before = part
    return "".join(pieces)


@dataclasses.dataclass
class _Open:
    """A node whose closing bracket is still to come."""

    label: str | None = None
    """None until it is known."""
    children: list[ParseTree | str] = dataclasses.field(default_factory=list)


class _Reader:
    """Builds trees token by token; yields a finished one only when it is clear that no surplus bracket follows."""

    def __init__(self, name: str):
        self._name = name
        self._stack: list[_Open] = []
        self._begin = 0
        self._wrong = ""
        """The first fault found in the current tree, which is read to its end nevertheless."""
        self._finished: ParseTree | Malformed | None = None

    def read(self, number: int, line: str) -> Iterator[ParseTree | Malformed]:
        """Reads a line; yields the trees that are known to be complete after it."""
        tokens = _TOKEN.findall(line)
        if self._stack and line.startswith("(") and self._starts_new_tree(tokens):
            yield self._unclosed("the next tree begins")
        stray = False
        for token in tokens:
            if self._stack:
                self._inside(token)
            elif token == "(":
                yield from self._pop_trees()
                self._begin, self._wrong = number, ""
                self._stack.append(_Open())
                stray = False
            elif token == ")":
                if isinstance(self._finished, ParseTree):
                    self._finished = Malformed(self._name, self._begin, "more brackets close than were opened")
                elif self._finished is None:
                    self._finished = Malformed(self._name, number, "a bracket closes that was not opened")
            elif not stray:
                stray = True
                yield from self._pop_trees()
                yield Malformed(self._name, number, f"{_shorten(token)} is outside all brackets")

    def end(self) -> Iterator[ParseTree | Malformed]:
        """Yields the remaining tree or fault at the end of the text."""
        yield from self._pop_trees()
        if self._stack:
            yield self._unclosed("the text ends")

    def _inside(self, token: str) -> None:
        node = self._stack[-1]
        if token == "(":
            node.label = node.label or ""
            self._stack.append(_Open())
        elif token == ")":
            self._close(self._stack.pop())
        elif node.label is None:
            node.label = token
        else:
            node.children.append(token)

    def _close(self, node: _Open) -> None:
        tree = ParseTree(node.label or "", tuple(node.children))
        self._wrong = self._wrong or _fault(tree, is_root=not self._stack)
        if self._stack:
            self._stack[-1].children.append(tree)
        else:
            self._finished = Malformed(self._name, self._begin, self._wrong) if self._wrong else tree

    def _pop_trees(self) -> Iterator[ParseTree | Malformed]:
        if self._finished is not None:
            yield self._finished
        self._finished = None

    def _starts_new_tree(self, tokens: list[str]) -> bool:
        label = "" if tokens[1:2] in (["("], [")"], []) else tokens[1]
        return label in OUTER_LABELS or label == self._stack[0].label

    def _unclosed(self, where: str) -> Malformed:
        depth = len(self._stack)
        self._stack.clear()
        opened = "1 bracket is" if depth == 1 else f"{depth:,} brackets are"
        return Malformed(self._name, self._begin, f"{opened} still open where {where}")


def _fault(tree: ParseTree, is_root: bool) -> str:
    """Returns what is wrong with a node that has just been closed, or an empty string."""
    if not tree.children:
        return f"({_shorten(tree.label)}) holds nothing" if tree.label else "() holds nothing"
    words = [child for child in tree.children if isinstance(child, str)]
    if words and len(tree.children) > 1:
        return f"word {_shorten(words[0])} under {_shorten(tree.label)} has no bracket of its own"
    if not tree.label and not is_root:
        return "a bracket inside the tree has no label"
    return ""


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."


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
