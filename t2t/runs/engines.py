"""Chooses the engine that decodes a run: the model itself, or CTranslate2 if requested and supported."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from t2t.checkpoints.architectures import to_state
from t2t.checkpoints.checkpoint import Checkpoint
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.hparams.base import HParams
from t2t.inference.ctranslate2.cache import ConversionCache, ConvertedModel
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.engine import Engine
from t2t.inference.engine_choice import AUTO, TENSORFLOW, EngineChoice, ctranslate2_is_installed
from t2t.inference.fallback import Demand, FallbackEngine
from t2t.inference.rows import max_sequence_ids
from t2t.inference.translator import Translator
from t2t.runs.startup import import_quietly

log = logging.getLogger("t2t")

POSITIONS_STEP = 1024
"""The positions of a conversion are a multiple of this, so that longer texts seldom need a new one."""

DEMANDS: Mapping[str, Demand] = {"float32": Demand(0.9, 1e-3)}
"""Agreement that `auto` requires of CTranslate2, by compute type; two beam searches always differ a little."""
ROUNDED = Demand(0.5, 0.5)
"""The same for other compute types, as for exports."""


def conversion_of(
    run: RunDir, problem: str, checkpoint: Checkpoint, hparams: HParams, choice: EngineChoice
) -> ConversionCache | None:
    """Returns the cache entry of a checkpoint's conversion, filled or not; None if the model itself decodes.

    Args:
        run: its folder holds the cache.
        problem: to decode.
        checkpoint: to decode with.
        hparams: of the run.
        choice: the requested engine.

    Raises:
        UserError: CTranslate2 is requested by name and is not installed.
    """
    choice.check()
    if choice.engine == TENSORFLOW:
        return None
    if not ctranslate2_is_installed():
        _log_model_decodes("CTranslate2 is not installed (pip install 't2t-keras[ctranslate2]')")
        return None
    # Building a model compares these with the checkpoint. A kept conversion skips that: they are in its key.
    checked = [problem, to_state(run.record.model, hparams), run.record.spec.to_dict()]
    fingerprint = f"{checkpoint.fingerprint} {json.dumps(checked, sort_keys=True)}"
    return ConversionCache(run.path, problem, checkpoint.name, fingerprint)


def engine_of(translator: Translator, conversion: ConversionCache | None, choice: EngineChoice) -> Engine:
    """Returns the engine to decode with.

    Args:
        translator: of the run; with a cached conversion, its model may be lazy.
        conversion: see `conversion_of`.
        choice: the requested engine.

    Raises:
        UserError: CTranslate2 is requested by name and does not support the model or the compute type.
    """
    if conversion is None:
        return translator.model_engine
    if conversion.kept is None and (found := _model_complaints(translator)):
        if choice.engine == AUTO:
            _log_model_decodes("; ".join(found))
            return translator.model_engine
        raise UserError(f"--engine=ctranslate2: it cannot hold this model: {'; '.join(found)}; leave it out")
    demand = DEMANDS.get(choice.compute_type, ROUNDED) if choice.engine == AUTO else None
    return _ctranslate2(translator, conversion, choice.compute_type, demand)


def _ctranslate2(
    translator: Translator, conversion: ConversionCache, compute_type: str, demand: Demand | None
) -> Engine:
    facts, hparams = translator.facts, translator.hparams
    longest = -(-(max_sequence_ids(facts, hparams) + hparams.extra_length) // POSITIONS_STEP) * POSITIONS_STEP
    tokens = TokenLists.of_encoders(translator.problem.encoders, getattr(translator.hparams, "input_end", True))

    def write(folder: Path) -> None:
        model = translator.model
        from t2t.inference.ctranslate2.conversion import write_model

        write_model(folder, model, tokens, longest)

    with conversion.opened(ConvertedModel(longest, facts.longest_sequence), write) as folder:
        start = translator.problem.language_marks().output_start
        fast = CTranslate2Engine(folder, tokens, longest, facts.longest_sequence, compute_type, start)
    return FallbackEngine(fast, lambda: translator.model_engine, demand, conversion)


def _model_complaints(translator: Translator) -> list[str]:
    model = translator.model
    from t2t.inference.ctranslate2.conversion import model_complaints

    return model_complaints(model)


def _log_model_decodes(reason: str) -> None:
    engine = import_quietly("t2t.inference.backend_choice").inference_backend().name
    log.info("--engine=auto: %s decodes: %s", engine, reason)
