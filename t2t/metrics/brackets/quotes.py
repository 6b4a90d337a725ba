"""Puts back quotation marks that one side deletes and the other does not.

A parser that tags an apostrophe as `''` where the treebank has `POS` loses a word to DELETE_LABEL, and the two sides
have unequal numbers of words. As in EVALB of 2006 (D. Ellis), such a word is put back on the side that lost it.
"""

from t2t.metrics.brackets.parameters import Parameters
from t2t.metrics.brackets.sentence import Quote, Sentence, Word


def put_back_quotes(gold: Sentence, test: Sentence, parameters: Parameters) -> None:
    """Changes both sentences in place: quotation marks at the same place count on both sides or on neither."""
    deleted = parameters.delete_labels
    for own, quote in enumerate(test.quotes):
        # the place before any change, against places that change: so does EVALB
        index = quote.index
        for other, counterpart in enumerate(gold.quotes):
            if counterpart.index != index or counterpart.tag == quote.tag:
                continue
            if counterpart.tag in deleted and quote.tag not in deleted:
                _put_back(gold, counterpart, gold.quotes[other:])
            elif quote.tag in deleted and counterpart.tag not in deleted:
                _put_back(test, quote, test.quotes[own:])


def _put_back(sentence: Sentence, quote: Quote, later: list[Quote]) -> None:
    sentence.words.insert(quote.index, Word(quote.word, quote.tag))
    for bracket in sentence.brackets[quote.bracket :]:
        bracket.start += 1
        bracket.end += 1
    for number in quote.around:
        sentence.brackets[number].end += 1
    for one in later:
        one.index += 1
