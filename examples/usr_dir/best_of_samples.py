"""A search method: draws as many samples as the beam is wide, and returns them by score, best first.

    t2t-decoder --decode_method=my_best_of_samples --decode_beam_size=8 --decode_alpha=1 ...

The score is the log-probability divided by the length penalty. Legend: B sentences, K samples of each.
"""

from t2t import register_search_method
from t2t.layers.beams import gather_beams
from t2t.search.methods import Sample
from t2t.search.result import SearchResult
from t2t.search.sampling import TokenByToken
from t2t.search.step import top_k


class _Ranked(TokenByToken):
    """Sampling whose result is ordered by score."""

    def result(self, progress):
        """Returns the samples of each sentence, best first; of equal ones that drawn first."""
        found = super().result(progress)
        _, order_BK = top_k(found.scores, self.rows_per_sentence)
        return SearchResult(*(gather_beams(field, order_BK) for field in found))


@register_search_method
class MyBestOfSamples(Sample):
    """The best of beam_size samples by length-normalized log-probability."""

    def samples(self, n_best, hparams):
        """Returns how many outputs of each sentence are drawn."""
        return hparams.beam_size

    def search(self, task):
        """Returns the search for the sentences of a batch."""
        return _Ranked(*super().search(task))
