"""Regular expressions as deterministic automata over the bytes of UTF-8.

A nondeterministic automaton (Thompson 1968, "Regular expression search algorithm") is built first and made
deterministic by the subset construction (Rabin and Scott 1959).

Legend: S states.
"""

from collections.abc import Iterator

import numpy as np

from t2t.errors import UserError
from t2t.text.regular_expressions.syntax import Characters, Choice, Node, Range, Repeat, Sequence

MOST_STATES = 2048
"""Maximum states of a deterministic automaton; the nondeterministic one may have eight times as many."""

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


class _Parts:
    """A nondeterministic automaton over bytes."""

    def __init__(self) -> None:
        self.edges: list[list[tuple[int, int, int]]] = []
        """Of each state: (first byte, last byte, next state) of each range of bytes."""
        self.free: list[list[int]] = []
        """Of each state: the states that follow without reading a byte."""

    def new(self) -> int:
        self.edges.append([])
        self.free.append([])
        if len(self.edges) > 8 * MOST_STATES:
            raise too_large()
        return len(self.edges) - 1

    def add(self, node: Node, start: int) -> int:
        """Adds the states that match a node after the state `start`; returns the state after the node."""
        if isinstance(node, Characters):
            return self._add_characters(node, start)
        if isinstance(node, Sequence):
            for part in node.parts:
                start = self.add(part, start)
            return start
        if isinstance(node, Choice):
            end = self.new()
            for part in node.parts:
                begin = self.new()
                self.free[start].append(begin)
                self.free[self.add(part, begin)].append(end)
            return end
        return self._add_repeat(node, start)

    def _add_characters(self, node: Characters, start: int) -> int:
        end = self.new()
        for ranges in (one for pair in node.ranges for one in byte_ranges(pair)):
            state = start
            for first, last in ranges[:-1]:
                after = self.new()
                self.edges[state].append((first, last, after))
                state = after
            self.edges[state].append((*ranges[-1], end))
        return end

    def _add_repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self.add(node.part, start)
        if node.most is None:
            loop, end = self.new(), self.new()
            self.free[start].append(loop)
            self.free[self.add(node.part, loop)].append(loop)
            self.free[loop].append(end)
            return end
        end = self.new()
        for _ in range(node.most - node.least):
            self.free[start].append(end)
            inside = self.new()
            self.free[start].append(inside)
            start = self.add(node.part, inside)
        self.free[start].append(end)
        return end

    def closure(self, states: frozenset[int]) -> frozenset[int]:
        """Returns these states and all that follow without reading a byte."""
        found, queue = set(states), list(states)
        while queue:
            for state in self.free[queue.pop()]:
                if state not in found:
                    found.add(state)
                    queue.append(state)
        return frozenset(found)


def byte_automaton(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Returns the next states, (S + 1, 256) int32, and which states are final, (S + 1,) bool.

    State 0 is the first one. State S is the dead one, which is never left.

    Raises:
        UserError: it is too large.
    """
    parts = _Parts()
    end = parts.add(node, parts.new())
    numbers = {parts.closure(frozenset([0])): 0}
    rows: list[np.ndarray] = []
    queue = list(numbers)
    for states in queue:  # which grows
        row = np.full(256, -1, np.int32)
        edges = [edge for state in states for edge in parts.edges[state]]
        starts = sorted({0, *(first for first, _, _ in edges), *(last + 1 for _, last, _ in edges)} - {256})
        for first, after_last in zip(starts, [*starts[1:], 256], strict=True):
            after = frozenset(state for begin, last, state in edges if begin <= first <= last)
            if after:
                closed = parts.closure(after)
                if closed not in numbers:
                    numbers[closed] = len(numbers)
                    queue.append(closed)
                row[first:after_last] = numbers[closed]
        rows.append(row)
        if len(numbers) > MOST_STATES:
            raise too_large()
    table = np.stack([*rows, np.full(256, -1, np.int32)])
    table[table < 0] = len(rows)
    return table, np.array([*(end in states for states in queue), False])


def too_large() -> UserError:
    """Returns the error for an automaton with too many states."""
    return UserError(
        f"regular expression: its automaton takes more than {MOST_STATES:,} states; give one with fewer repetitions"
    )


def byte_ranges(characters: Range) -> Iterator[list[Range]]:
    """Yields sequences of byte ranges that together match the UTF-8 of a range of characters, each character once."""
    first, last = characters
    for end in _LAST_OF_LENGTH:
        if first <= min(last, end):
            yield from _of_one_length(chr(first).encode(), chr(min(last, end)).encode())
            first = max(first, end + 1)


def _of_one_length(first: bytes, last: bytes) -> Iterator[list[Range]]:
    """Yields the same for all UTF-8 sequences between two of one length."""
    if len(first) == 1 or first[0] == last[0]:
        rest = [[]] if len(first) == 1 else _of_one_length(first[1:], last[1:])
        yield from ([(first[0], last[0]), *others] for others in rest)
        return
    lowest, highest = b"\x80" * (len(first) - 1), b"\xbf" * (len(first) - 1)
    begin, end = first[0], last[0]
    if first[1:] != lowest:
        yield from ([(begin, begin), *others] for others in _of_one_length(first[1:], highest))
        begin += 1
    if last[1:] != highest:
        end -= 1
    if begin <= end:
        yield [(begin, end), *[(0x80, 0xBF)] * (len(first) - 1)]
    if last[1:] != highest:
        yield from ([(last[0], last[0]), *others] for others in _of_one_length(lowest, last[1:]))
