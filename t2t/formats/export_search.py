"""The search of exports that have none of the run: what they keep of its settings, and the refusal of the rest."""

from collections.abc import Mapping

from t2t.errors import UserError
from t2t.formats.export_formats import SAVED_MODEL
from t2t.formats.export_job import Export
from t2t.formats.parity import UNCONSTRAINED
from t2t.hparams.groups import DecodeHParams

_WITHOUT = {name: (value,) for name, value in UNCONSTRAINED.items()} | {"coverage_penalty": (0.0,)}
BEAM_SEARCH: Mapping[str, tuple | None] = {
    **_WITHOUT, "decode_method": ("beam", "greedy"), "beam_size": None, "alpha": None, "length_penalty": ("power",),
}  # fmt: skip
"""Programs with a beam search of their own, see `Export.search`."""
GREEDY_SEARCH: Mapping[str, tuple | None] = {
    **_WITHOUT, "decode_method": ("greedy",), "beam_size": (1,), "alpha": (0.0,), "extra_length": None,
}  # fmt: skip
"""The script of graphs, see `Export.search`."""

_SETTINGS = tuple(dict.fromkeys((
    *BEAM_SEARCH, *GREEDY_SEARCH, "sampling_temperature", "sampling_top_k", "sampling_top_p",
    "mask_predict_iterations", "length_candidates",
)))  # fmt: skip


def beams(hparams: DecodeHParams) -> int:
    """Returns the beam size for a program with a beam search of its own; 1, greedy search, for any other method."""
    return hparams.beam_size if hparams.decode_method == "beam" else 1


def length_exponent(hparams: DecodeHParams) -> float:
    """Returns the exponent of the length that scores are divided by, the only length penalty of such programs."""
    return float(hparams.alpha) if hparams.length_penalty == "power" else 0.0


def check_search(made: Export) -> None:
    """Checks that an export keeps the search that was asked for it.

    Raises:
        UserError: more than one output of a model that searches, or settings that the export's search is not given.
    """
    job, hparams, kept = made.job, made.translator.hparams, made.search
    if kept is None or not made.translator.model.autoregressive:
        return
    asked = set(job.asked)
    if "alpha" in asked and hparams.alpha and kept["alpha"] is None:
        asked.add("length_penalty")  # of which it is the strength
    wanted = {"n_best": job.n_best} | {name: getattr(hparams, name) for name in _SETTINGS if name in asked}
    lost = []
    for name, value in wanted.items():
        values = (1,) if name == "n_best" else kept.get(name, ())
        if values is not None and value not in values:
            lost.append(f"{name}={value}" + (f" (only {' or '.join(map(str, values))})" if values else ""))
    if lost:
        others = "" if hparams.decode_method == "sample" else f", or use {SAVED_MODEL}, which has the run's own search"
        raise UserError(
            f"--format={job.format}: the search of the export is not given {', '.join(lost)}; leave that out{others}"
        )
