"""What a search may write next, and the state that decides it.

Legend: B sentences, K hypotheses of each, N = B * K rows, S numbers of a state, T room for tokens.
"""

from typing import Any, NamedTuple

from keras import ops

from t2t.search.constraints.automaton import Automaton, keep_to
from t2t.search.constraints.finite_automaton import PhraseAutomaton, PhraseEdges
from t2t.search.constraints.token_rules import (
    as_log_probs,
    delay_end,
    forbid_repeats,
    force_prefix,
    penalise_end,
)
from t2t.search.settings import SearchSettings
from t2t.search.step import NextToken
from t2t.specs.constants import EOS_ID


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

    @property
    def has_banks(self) -> bool:
        """Whether beams are divided into banks, see `t2t.search.banks`."""
        return isinstance(self.automaton, PhraseAutomaton)

    def phrases(self, states_NS: Any) -> PhraseEdges:
        """Returns how rows can go on with phrases. Needs banks."""
        assert isinstance(self.automaton, PhraseAutomaton)
        return self.automaton.phrases(states_NS)

    def shared(self, states_NS: Any) -> Any:
        """Returns which rows use banks, (N,) bool. Needs banks."""
        assert isinstance(self.automaton, PhraseAutomaton)
        return self.automaton.shared(states_NS)


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
    """Returns the constraint of a search, see `t2t.search.search.search_of`; None if anything may be written."""
    if prefix is None and automaton is None and not settings.constrains_output:
        return None
    return Constraint(settings, vocab_size, limits, automaton, prefix)
