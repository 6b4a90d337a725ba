"""What a search may write next: token rules read the ids so far, an automaton keeps a state for each hypothesis.

Legend: B sentences, K hypotheses of each, N = B * K rows, S numbers of a state, P prefix length, T room for tokens, V
vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from t2t.errors import UserError
from t2t.search.automata import Automaton, FiniteAutomaton, PhraseAutomaton, tree_automaton
from t2t.search.settings import SearchSettings
from t2t.search.step import NextToken, all_log_probs
from t2t.specs import EOS_ID, PAD_ID
from t2t.specs.constraints import FiniteConstraint, OutputConstraint, TreeConstraint

_FORBIDDEN = -1e9


def forbid_padding(found: NextToken) -> NextToken:
    """Forbids the padding id; its probability is not redistributed."""
    return found._replace(never=PAD_ID)


def force_prefix(found: NextToken, prefix_NP: Any, position: Any) -> NextToken:
    """Forces the next id of a prefix, with log-probability 0.

    Args:
        found: the model's scores, kept in rows whose prefix has no id at `position`.
        prefix_NP: (N, P) int32, zero padded; None where there are no prefixes.
        position: () int32, how many ids have been written.
    """
    if prefix_NP is None:
        return found
    width = ops.shape(prefix_NP)[1]

    def forced_scores():
        wanted_N = ops.take(prefix_NP, ops.minimum(position, width - 1), axis=1)
        is_wanted_NV = ops.equal(found.columns[None, :], wanted_N[:, None])
        # As a log-probability, and as a logit that outweighs all others.
        certain_NV = ops.where(is_wanted_NV, 0.0, _FORBIDDEN)
        return ops.where(ops.not_equal(wanted_N, PAD_ID)[:, None], certain_NV, found.scores)

    return found._replace(scores=ops.cond(position < width, forced_scores, lambda: found.scores))


def as_log_probs(found: NextToken, vocab_size: int) -> NextToken:
    """Converts scores to log-probabilities, so that forbidding a token does not redistribute its probability."""
    return found._replace(scores=all_log_probs(found, vocab_size), normalised=True, never=None)


def delay_end(found: NextToken, position: Any, min_length: int) -> NextToken:
    """Forbids end of sequence before `min_length` tokens, except in rows where nothing else may be written.

    `found` has log-probabilities.
    """
    early_V = ops.logical_and(ops.equal(found.columns, EOS_ID), position < min_length)
    delayed_NV = ops.where(early_V[None, :], -float("inf"), found.scores)
    has_others_N1 = ops.any(delayed_NV > -float("inf"), axis=-1, keepdims=True)
    return found._replace(scores=ops.where(has_others_N1, delayed_NV, found.scores))


def penalise_end(found: NextToken, penalty: float) -> NextToken:
    """Lowers the log-probability of end of sequence by `penalty`, at least 0; `found` has log-probabilities."""
    is_end_V = ops.equal(found.columns, EOS_ID)
    return found._replace(scores=found.scores - penalty * ops.cast(is_end_V, "float32")[None, :])


def forbid_repeats(found: NextToken, ids_NT: Any, position: Any, size: int, vocab_size: int) -> NextToken:
    """Forbids tokens that would repeat an n-gram of `size` tokens of the same row; `found` has log-probabilities.

    Paulus et al. 2018 (arXiv:1705.04304), section 2.5.

    Args:
        found: the model's scores.
        ids_NT: (N, T) int32, tokens so far.
        position: () int32, their number.
        size: n, at least 1.
        vocab_size: number of all tokens.
    """
    rows, width = ops.shape(ids_NT)
    starts_T = ops.arange(width, dtype="int32")
    # An n-gram that begins at t is repeated by its last token if its others are the last tokens written.
    repeats_NT = ops.broadcast_to(starts_T + size <= position, (rows, width))
    for offset in range(size - 1):
        written_N1 = ops.take(ids_NT, ops.maximum(position - size + 1 + offset, 0), axis=1)[:, None]
        repeats_NT = ops.logical_and(repeats_NT, ops.equal(ops.roll(ids_NT, -offset, axis=1), written_N1))
    last_NT = ops.where(repeats_NT, ops.roll(ids_NT, 1 - size, axis=1), vocab_size)  # a column after all tokens
    numbers_NT = ops.broadcast_to(ops.arange(rows, dtype="int32")[:, None], (rows, width))
    places = ops.stack([ops.reshape(numbers_NT, (-1,)), ops.reshape(last_NT, (-1,))], axis=1)
    forbidden_NV = ops.scatter(places, ops.ones_like(places[:, 0]), (rows, vocab_size + 1)) > 0
    forbidden_NV = forbidden_NV[:, :-1] if found.ids is None else ops.take(forbidden_NV, found.ids, axis=1)
    return found._replace(scores=ops.where(forbidden_NV, -float("inf"), found.scores))


def keep_to(found: NextToken, automaton: Automaton, states: Any, room: Any, vocab_size: int) -> NextToken:
    """Forbids ids that the automaton does not allow, without renormalising the others."""
    found = as_log_probs(found, vocab_size)
    return found._replace(scores=ops.where(automaton.allowed(states, room, found.columns), found.scores, -float("inf")))


class Constraint(NamedTuple):
    """Rules of the search settings, an automaton of the allowed outputs, and a prefix that overrides both.

    See `constraint_of`.
    """

    settings: SearchSettings
    vocab_size: int
    limits: Any
    """(B,) int32: most tokens of each sentence, end of sequence included."""
    automaton: Automaton | None = None
    """Outputs are among those that it accepts; None for any."""
    prefix: Any = None
    """(N, P) int32, zero padded; None for nothing."""

    def restrict(self, found: NextToken, ids_NT: Any, position: Any, states_NS: Any) -> NextToken:
        """Returns the model's scores, -inf for tokens that may not come next.

        The rules, in this order; a later one sees what the earlier ones leave:
            1. End of sequence gets its penalty, which has a say in where the model would end.
            2. The automaton forbids what leads out of its outputs. Without beams, where the model would end, with rules
               1 and 4, but a phrase is missing, it forbids all that does not continue a phrase.
            3. N-grams do not repeat.
            4. Short outputs do not end, unless nothing else may be written.
            5. Within the prefix, its token is written, whatever the others forbid.

        Args:
            found: the model's scores.
            ids_NT: (N, T) int32, the tokens of each row so far.
            position: () int32, their number.
            states_NS: (N, S) int32, states of the automaton; () without one.
        """
        settings = self.settings
        if settings.constrains_output:
            found = as_log_probs(found, self.vocab_size)
        if settings.eos_penalty:
            found = penalise_end(found, settings.eos_penalty)
        if self.automaton is not None:
            room_N = ops.repeat(self.limits, settings.rows_per_sentence, axis=0) - position
            free = as_log_probs(found, self.vocab_size)
            found = keep_to(free, self.automaton, states_NS, room_N, self.vocab_size)
            if isinstance(self.automaton, PhraseAutomaton) and not settings.uses_beam_search:
                free = delay_end(free, position, settings.min_length)
                found = _complete_at_end(found, free, self.automaton.nearer(states_NS, found.columns))
        if settings.no_repeat_ngram:
            found = forbid_repeats(found, ids_NT, position, settings.no_repeat_ngram, self.vocab_size)
        if settings.min_length:
            found = delay_end(found, position, settings.min_length)
        return force_prefix(found, self.prefix, position)

    def advance(self, states_NS: Any, tokens_N: Any) -> Any:
        """Returns the states of the automaton after another token of each row, (N,) int32; () without one."""
        return () if self.automaton is None else self.automaton.advance(states_NS, tokens_N)


def _complete_at_end(found: NextToken, free: NextToken, nearer_NV: Any) -> NextToken:
    """Where the model would end a row now, restricts it to ids that bring it nearer to a state in which it may end.

    Without beams, phrases would otherwise be postponed until the room is used up.
    """
    ends_N = ops.equal(ops.take(free.columns, ops.argmax(free.scores, axis=1)), EOS_ID)
    nearer_NV = ops.where(nearer_NV, found.scores, -float("inf"))
    is_possible_N = ops.any(nearer_NV > -float("inf"), axis=1)
    completed_N1 = ops.logical_and(ends_N, is_possible_N)[:, None]
    return found._replace(scores=ops.where(completed_N1, nearer_NV, found.scores))


def constraint_of(
    settings: SearchSettings,
    vocab_size: int,
    limits: Any,
    prefix: Any = None,
    automaton: Automaton | None = None,
) -> Constraint | None:
    """Returns the constraint of a search, see `t2t.search.methods.search_of`; None if anything may be written."""
    if prefix is None and automaton is None and not settings.constrains_output:
        return None
    return Constraint(settings, vocab_size, limits, automaton, prefix)


class BatchConstraints(NamedTuple):
    """What the outputs of B sentences may be."""

    automaton: Automaton
    """Of numpy arrays, the same for all."""
    first_states: Any
    """(B, S) int32."""
    shortest: Any
    """(B,) int32: length of the shortest output of each, with its prefix, in ids with end of sequence."""

    @classmethod
    def build(
        cls,
        constraints: Sequence[OutputConstraint],
        vocab_size: int,
        prefixes: Sequence[Sequence[int]] | None = None,
    ) -> Self:
        """Returns the constraints of B sentences, all of one class; trees with the same labels.

        Args:
            constraints: at least one.
            vocab_size: of the outputs.
            prefixes: ids that each output begins with, which its constraint must allow; None for nothing.

        Raises:
            UserError: the constraints are of several classes, or trees with different labels; or they are too large.
        """
        automaton, states_BS = _automaton_of(constraints, vocab_size)
        given = prefixes or [()] * len(constraints)
        shortest = [one.shortest(prefix) for one, prefix in zip(constraints, given, strict=True)]
        return cls(automaton, states_BS, np.array(shortest, np.int32))

    def select(self, indices: Any) -> Self:
        """Selects the constraints of some of the sentences, by index."""
        return self._replace(first_states=self.first_states[indices], shortest=self.shortest[indices])


def _automaton_of(constraints: Sequence[OutputConstraint], vocab_size: int) -> tuple[Automaton, np.ndarray]:
    """Returns the automaton of some constraints, of numpy arrays, and the first state of each, (B, S) int32."""
    trees = [constraint for constraint in constraints if isinstance(constraint, TreeConstraint)]
    finite = [constraint for constraint in constraints if isinstance(constraint, FiniteConstraint)]
    if len(trees) == len(constraints):
        if any(tree.labels != trees[0].labels for tree in trees):
            raise UserError(
                f"constraints of {len(trees):,} outputs: trees with different labels; in a call all must have the same",
                "use the same TreeLabels for every input, or decode inputs with others in a call of their own",
            )
        return tree_automaton(trees, vocab_size)
    if len(finite) < len(constraints):
        names = sorted({type(constraint).__name__ for constraint in constraints})
        raise UserError(
            f"constraints of {len(constraints):,} outputs: of {', '.join(names)}; in a call all must be of "
            "TreeConstraint or all of FiniteConstraint",
            "use one of them for every input, or decode in several calls",
        )
    has_banks = any(constraint.rewards_progress for constraint in finite)
    return (PhraseAutomaton if has_banks else FiniteAutomaton).of_constraints(finite)
