"""Constraints on outputs, as plain data: problems and requests define them, searches enforce them.

A finite automaton accepts a set of outputs, e.g. those with some phrases and without others: that of Aho and Corasick
1975 ("Efficient string matching") tracks the longest prefix of a phrase that the output ends with. A state also records
which forced phrases have occurred; they may come in any order and overlap. Trees are over a given number of words.
"""

import dataclasses
import functools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Self

from t2t.errors import UserError
from t2t.specs import EOS_ID, PAD_ID


class OutputConstraint(ABC):
    """A set of allowed outputs; the outputs of a call may have different ones, all trees or all finite automata."""

    @abstractmethod
    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """Returns the length in ids, end of sequence included, of the shortest output with a prefix; None for none."""

    @abstractmethod
    def fitted(self, longest: int) -> Self:
        """Returns the constraint, loosened as far as possible for outputs of at most `longest` ids.

        `longest` includes the end of sequence and is at least 1.
        """


DEAD = -1
"""The state after an id that is not allowed."""

MOST_STATES, MOST_EDGES = 4096, 2**18
"""Maximum number of states of the automaton of one output, and of edges of all its states."""


@dataclasses.dataclass(frozen=True)
class FiniteConstraint(OutputConstraint):
    """A deterministic automaton over ids, without end of sequence; it begins in state 0."""

    edges: tuple[Mapping[int, int], ...]
    """Of each state, the next state by id."""
    defaults: tuple[int, ...]
    """Of each state, the next state after any other id; DEAD if no other id is allowed."""
    final: frozenset[int]
    """States in which an output may end."""
    rewards_progress: bool = False
    """Whether the search divides its beams by the ids still missing, since forced phrases are improbable."""

    def __post_init__(self) -> None:
        check_size(self.edges)

    @functools.cached_property
    def needed(self) -> tuple[int | None, ...]:
        """Minimum ids to finish an output from each state, end of sequence included; None where it cannot end."""
        before: list[set[int]] = [set() for _ in self.edges]
        for state, (edges, default) in enumerate(zip(self.edges, self.defaults, strict=True)):
            for after in {*edges.values(), default} - {DEAD}:
                before[after].add(state)
        found: list[int | None] = [None] * len(self.edges)
        states, count = set(self.final), 1
        while states:
            for state in states:
                found[state] = count
            states = {state for after in states for state in before[after] if found[state] is None}
            count += 1
        return tuple(found)

    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """See the base class."""
        state = 0
        for token in prefix:
            state = self.edges[state].get(token, self.defaults[state])
            if state == DEAD:
                return None
        needed = self.needed[state]
        return None if needed is None else len(prefix) + needed

    def fitted(self, longest: int) -> Self:
        """Returns the constraint unchanged: no part of it can be left out."""
        return self


def check_size(edges: Sequence[Mapping[int, int]]) -> None:
    """Raises UserError if an automaton has too many states or edges."""
    if len(edges) > MOST_STATES or sum(map(len, edges)) > MOST_EDGES:
        raise UserError(
            f"a constraint on outputs that takes more than {MOST_STATES:,} states or {MOST_EDGES:,} edges between them",
            "give fewer or shorter phrases",
        )


ANYTHING = FiniteConstraint(({},), (0,), frozenset({0}))
"""Allows every output."""


def answers_constraint(answers: Sequence[Sequence[int]]) -> FiniteConstraint:
    """Returns the constraint that the output is one of `answers`, as a trie.

    Raises:
        UserError: the trie is too large.
    """
    edges: list[dict[int, int]] = [{}]
    final = frozenset(add_path(edges, answer) for answer in answers)
    return FiniteConstraint(tuple(edges), (DEAD,) * len(edges), final)


def add_path(edges: list[dict[int, int]], ids: Sequence[int]) -> int:
    """Adds the states of some ids to a trie, whose root is state 0; returns the last one.

    Raises:
        UserError: the trie is too large.
    """
    state = 0
    for token in ids:
        if token not in edges[state]:
            if not len(edges) % 256:  # requests may have a million ids
                check_size(edges)
            edges.append({})
            edges[state][token] = len(edges) - 1
        state = edges[state][token]
    return state


Phrase = Sequence[int]


def phrase_constraint(forced: Sequence[Phrase], forbidden: Sequence[Phrase], vocab_size: int) -> FiniteConstraint:
    """Returns the constraint that outputs contain all forced phrases and no forbidden one.

    Args:
        forced: ids of each phrase, at least one.
        forbidden: likewise.
        vocab_size: of the outputs.

    Raises:
        UserError: the automaton is too large.
    """
    matcher = _Matcher([*forced, *forbidden])
    alphabet = {token for children in matcher.children for token in children}
    has_others = vocab_size > len(alphabet | {PAD_ID, EOS_ID})
    all_met = (1 << len(forced)) - 1
    numbers: dict[tuple[int, int], int] = {(0, 0): 0}
    queue, edges, defaults, final = deque(numbers), list[dict[int, int]](), list[int](), set[int]()

    def number_of(node: int, met: int) -> int:
        found = matcher.found[node]
        if found >> len(forced):
            return DEAD
        # With nothing left to look for, one state is enough.
        state = (node if forbidden or met | found != all_met else 0, met | found)
        if state not in numbers:
            numbers[state] = len(numbers)
            queue.append(state)
        return numbers[state]

    while queue:
        if not len(edges) % 256:
            check_size(edges)
        node, met = queue.popleft()
        default = number_of(0, met)
        after = {token: number_of(matched, met) for token, matched in matcher.steps(node).items()}
        if met == all_met:
            final.add(len(edges))
        edges.append({token: state for token, state in after.items() if state != default})
        defaults.append(default if has_others or len(edges[-1]) < len(alphabet) else DEAD)
    return FiniteConstraint(tuple(edges), tuple(defaults), frozenset(final), rewards_progress=bool(forced))


class _Matcher:
    """The automaton of Aho and Corasick: nodes are prefixes of phrases, 0 the empty one."""

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self.children: list[dict[int, int]] = [{}]
        ends = [add_path(self.children, phrase) for phrase in phrases]
        check_size(self.children)
        self.found = [0] * len(self.children)
        """Of each node, the phrases that end there, as bits."""
        self.shorter = [0] * len(self.children)
        """Of each node, the node of its longest proper suffix that is one (its failure link)."""
        for number, node in enumerate(ends):
            self.found[node] |= 1 << number
        queue = deque(self.children[0].values())
        while queue:
            node = queue.popleft()
            self.found[node] |= self.found[self.shorter[node]]
            for token, child in self.children[node].items():
                self.shorter[child] = self.step(self.shorter[node], token)
                queue.append(child)

    def steps(self, node: int) -> dict[int, int]:
        """Returns id -> next node, for the ids that do not lead back to node 0."""
        suffixes = [node]
        while suffixes[-1]:
            suffixes.append(self.shorter[suffixes[-1]])
        steps: dict[int, int] = {}
        for suffix in reversed(suffixes):  # longer suffixes replace what shorter ones have
            steps |= self.children[suffix]
        return steps

    def step(self, node: int, token: int) -> int:
        """Returns the node after another id."""
        while node and token not in self.children[node]:
            node = self.shorter[node]
        return self.children[node].get(token, 0)


MAX_DEPTH = 64
"""Maximum number of open phrases at any point of a tree. Treebanks have up to about 40."""


@dataclasses.dataclass(frozen=True)
class TreeLabels:
    """Ids of the labels of trees, see `t2t.features.treebank_linearisation`."""

    tags: tuple[int, ...]
    """Each stands for one word."""
    phrases: tuple[tuple[int, int], ...]
    """(opening id, closing id) of each kind of phrase."""


@dataclasses.dataclass(frozen=True)
class TreeConstraint(OutputConstraint):
    """Trees over `words` words: one tag for each, every phrase closed by its own label, no empty phrase."""

    labels: TreeLabels
    words: int

    def shortest(self, prefix: Sequence[int] = ()) -> int | None:
        """See the base class: the prefix, a tag per remaining word, an end per open phrase, and end of sequence."""
        tags, ends = set(self.labels.tags), dict(self.labels.phrases)
        words, opened, is_empty = self.words, list[int](), False
        for token in prefix:
            if token in ends:
                opened.append(ends[token])
            elif token in tags:
                words -= 1
            elif is_empty or not opened or token != opened.pop():
                return None
            is_empty = token in ends
        possible = words > 0 if is_empty else words >= 0
        return len(prefix) + words + len(opened) + 1 if possible and len(opened) <= MAX_DEPTH else None

    def fitted(self, longest: int) -> Self:
        """Returns a constraint to at most `longest` - 1 words; the rest of the input is dropped."""
        return dataclasses.replace(self, words=min(self.words, longest - 1))
