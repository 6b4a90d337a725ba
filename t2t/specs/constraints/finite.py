"""Sets of outputs that a finite automaton accepts."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Self

from t2t.errors import UserError
from t2t.specs.constraints.constraint import OutputConstraint

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
            f"a constraint on outputs that takes more than {MOST_STATES:,} states or {MOST_EDGES:,} edges between "
            f"them; give fewer or shorter phrases"
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
