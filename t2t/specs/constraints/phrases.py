"""Constraint that outputs contain some phrases and avoid others.

The automaton of Aho and Corasick 1975 ("Efficient string matching") tracks the longest prefix of a phrase that the
output ends with. A state also records which forced phrases have occurred; they may come in any order and overlap.
"""

from collections import deque
from collections.abc import Sequence

from t2t.specs.constants import EOS_ID, PAD_ID
from t2t.specs.constraints.finite import DEAD, FiniteConstraint, add_path, check_size

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
