"""Whether one system is better than another: paired bootstrap resampling (Koehn 2004), as sacreBLEU computes it."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sacrebleu.significance import PairedTest

from t2t.metrics.base import check_lines
from t2t.metrics.text import SACREBLEU_METRICS, sacrebleu_metric

RESAMPLES = 1000
"""Samples of the test set, with replacement; what sacreBLEU draws by default."""


@dataclasses.dataclass(frozen=True)
class PairedScore:
    """The score of one system, compared with that of the first."""

    metric: str
    """Name as sacreBLEU writes it, e.g. `BLEU`."""
    system: str
    value: float
    mean: float
    """Over the samples."""
    interval: float
    """Half the width of the interval that holds 95 % of the samples."""
    p_value: float | None
    """Probability of a difference at least as large by chance; None for the first system."""
    signature: str

    def __str__(self) -> str:
        """Returns one line for people; * marks p below 0.05."""
        line = f"{self.system}: {self.metric} = {self.value:.2f} ({self.mean:.2f} +- {self.interval:.2f})"
        if self.p_value is not None:
            line += f", p = {self.p_value:.4f}{'*' * (self.p_value < 0.05)}"
        return f"{line} | {self.signature}"


def paired_bootstrap(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[str],
    metrics: Mapping[str, Mapping[str, Any]],
    resamples: int = RESAMPLES,
) -> list[PairedScore]:
    """Compares systems with the first of them, the baseline, on the same samples of the lines.

    Args:
        systems: pairs of a name and its lines.
        references: as many lines as each system has.
        metrics: names among `SACREBLEU_METRICS` and their options.
        resamples: how many samples are drawn.

    Returns:
        For each metric the score of each system, in their order.

    Raises:
        UserError: no lines, unequal numbers of lines, or an option that sacreBLEU does not know.
    """
    for _, lines in systems:
        check_lines("paired bootstrap", lines, references)
    named = {name: sacrebleu_metric(name, SACREBLEU_METRICS[name], dict(given)) for name, given in metrics.items()}
    test = PairedTest([(name, list(lines)) for name, lines in systems], named, [list(references)], "bs", resamples)
    results: Any = test()
    signatures, found = results
    scores = []
    for metric, signature in signatures.items():
        for (system, _), one in zip(systems, found[metric], strict=True):
            # sacreBLEU counts larger differences only, so that equal scores would look significant.
            is_equal = one.p_value is not None and one.score == found[metric][0].score
            p_value = 1.0 if is_equal else one.p_value
            scores.append(
                PairedScore(metric, system, one.score, float(one.mean), float(one.ci), p_value, str(signature))
            )
    return scores
