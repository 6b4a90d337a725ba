"""Changes of a run's outputs for dev sentences from evaluation to evaluation."""

from collections.abc import Sequence
from typing import Any

from t2t.checkpoints.dev_outputs import DevOutputs
from t2t.metrics.text import SACREBLEU_METRICS, sacrebleu_metric
from t2t.studio.word_changes import merged_changes


def history_json(evaluations: Sequence[DevOutputs], most: int) -> dict[str, Any]:
    """Returns for each sentence the outputs that differ from the previous one, the newest first.

    Only evaluations on the same sentences as the last one are used.

    Args:
        evaluations: evaluations of one problem, oldest first.
        most: how many outputs of a sentence to return, the newest ones.

    Returns:
        `steps` of the evaluations; `sentences`, each with `source`, which may be null, `reference`, `outputs` and
        `earlier`, the number of omitted older outputs. An output has its `first` and `last` step, its chrF, and the
        `words` removed from and added to the previous output.
    """
    own = [one for one in evaluations if one.sentences == evaluations[-1].sentences]
    if not own:
        return {"steps": [], "sentences": []}
    sources = own[-1].sources or [None] * len(own[-1].references)
    return {
        "steps": [one.step for one in own],
        "sentences": [
            {"source": source, "reference": reference, **_versions(own, index, most)}
            for index, (source, reference) in enumerate(zip(sources, own[-1].references, strict=True))
        ],
    }


def _versions(evaluations: Sequence[DevOutputs], index: int, most: int) -> dict[str, Any]:
    spans: list[tuple[int, int, str]] = []
    for one in evaluations:
        text = one.outputs[index]
        if spans and spans[-1][2] == text:
            spans[-1] = spans[-1][0], one.step, text
        else:
            spans.append((one.step, one.step, text))
    reference = evaluations[-1].references[index]
    chrf = sacrebleu_metric("chrf", SACREBLEU_METRICS["chrf"], {})
    found = []
    for number in range(max(0, len(spans) - most), len(spans)):
        first, last, text = spans[number]
        words = merged_changes(spans[number - 1][2], text) if number else [(text, "same")] if text.strip() else []
        score = chrf.sentence_score(text, [reference]).score
        found.append({"first": first, "last": last, "chrf": score, "words": words})
    return {"outputs": found[::-1], "earlier": len(spans) - len(found)}
