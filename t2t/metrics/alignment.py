"""Alignment error rate of word alignments.

Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 6.1.

With A the links found, S the sure links made by hand and P the possible ones, S among them:

    precision = |A and P| / |A|     recall = |A and S| / |S|     AER = 1 - (|A and S| + |A and P|) / (|A| + |S|)
"""

import math
from collections.abc import Iterable

from t2t.files.pharaoh import Links
from t2t.metrics.base import Score


def alignment_error_rate(gold: Iterable[tuple[Links, Links]], found: Iterable[Links]) -> Score:
    """Returns the alignment error rate over all pairs of sentences, with precision and recall; a link counts once.

    Without any link on either side the rate is 0. Precision without links found and recall without sure ones are NaN.

    Args:
        gold: (sure links, further possible links) of each pair.
        found: the links found for each pair.
    """
    links = sure_links = found_sure = found_possible = 0
    for (sure, possible), one in zip(gold, found, strict=True):
        found_set, sure_set = set(one), set(sure)
        links += len(found_set)
        sure_links += len(sure_set)
        found_sure += len(found_set & sure_set)
        found_possible += len(found_set & (sure_set | set(possible)))
    rate = 1 - (found_sure + found_possible) / (links + sure_links) if links + sure_links else 0.0
    detail = {
        "precision": found_possible / links if links else math.nan,
        "recall": found_sure / sure_links if sure_links else math.nan,
        "links": links,
        "sure_links": sure_links,
    }
    text = (
        f"AER = {rate:.4f}, precision = {detail['precision']:.4f}, recall = {detail['recall']:.4f} "
        f"({links:,} links found, {sure_links:,} sure)"
    )
    return Score("aer", rate, higher_is_better=False, detail=detail, text=text)
