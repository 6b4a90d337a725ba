"""Grammars of English phrases about numbers and their German translations, written for this project.

One file a kind of phrase, each with `draw(rng)`; `english` and `german` hold the number words and endings.
"""

from t2t.problems.number_grammar import clock, dates, measures, money, ordinals, plain, things
from t2t.problems.number_grammar.phrase import Phrase

KINDS = {
    "cardinal": plain.draw,
    "ordinal": ordinals.draw,
    "date": dates.draw,
    "clock": clock.draw,
    "price": money.draw,
    "quantity": things.draw,
    "measure": measures.draw,
}
"""Name of a kind of phrase to the function that draws one from a `random.Random`."""

__all__ = ["KINDS", "Phrase"]
