"""Search settings that a request may change, and their limits."""

from collections.abc import Mapping
from typing import Any

from t2t.decoding.settings import SearchSettings
from t2t.errors import UserError
from t2t.inference.settings import SEED, check_read
from t2t.inference.translator import Translator

FIELDS = (
    "decode_method", "beam_size", "alpha", "extra_length", "sampling_temperature", "sampling_top_k", "sampling_top_p",
)  # fmt: skip
"""Decode hparams that a request may change."""
SEARCH_KEYS = (*FIELDS, SEED)
"""Search settings of a request besides `n_best`."""


def check_changes(translator: Translator, n_best: int, changes: Mapping[str, Any], most_rows: int) -> SearchSettings:
    """Returns the search settings of a request.

    Args:
        translator: translator of the model.
        n_best: outputs for each text.
        changes: values to change, with keys from `SEARCH_KEYS`.
        most_rows: largest beam, and largest number of samples per text.

    Raises:
        UserError: a wrong value, one beyond the limits of the server, or one without effect.
    """
    settings, hparams = translator.settings(n_best, **changes)
    if not translator.facts.autoregressive:
        if changes:
            raise UserError(f"{next(iter(changes))}: the model answers at once and searches nothing; leave it out")
        return settings
    if settings.rows_per_sentence > most_rows:
        name = "beam_size" if settings.uses_beam_search else "n_best"
        raise UserError(
            f"{name}={settings.rows_per_sentence}: the server searches at most {most_rows} for a text; ask for "
            f"that, or start it with a larger --request_beam"
        )
    if hparams.extra_length > translator.hparams.extra_length:
        raise UserError(
            f"extra_length={hparams.extra_length}: the server allows at most {translator.hparams.extra_length}; ask "
            f"for that, or start it with a larger --decode_extra_length"
        )
    check_read(hparams, changes)
    return settings


def limit_tokens(translator: Translator, text: str, changes: Mapping[str, Any], most: int) -> dict[str, int]:
    """Returns the change of `extra_length` that limits outputs for a text to `most` ids, end of sequence included.

    Raises:
        UserError: `most` is less than the input's length with all ids behind it, which the search always allows, or the
            model is not autoregressive.
    """
    if not translator.facts.autoregressive:
        raise UserError("max_tokens: the model answers at once and writes no tokens; leave it out")
    if translator.is_blank(text):
        return {}
    (ids,) = translator.encode([text])
    free = 0
    if translator.has_inputs:
        behind = 1 + len(translator.problem.language_marks().input_end)
        free = min(len(ids), translator.longest_input) + behind
    if most < free:
        raise UserError(
            f"max_tokens={most}: an output may be as long as its input, here {free} tokens, end of sequence included; "
            f"ask for that or more, or leave it out"
        )
    return {"extra_length": min(most - free, changes.get("extra_length", translator.hparams.extra_length))}
