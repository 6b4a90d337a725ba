"""Chooses what decodes a run: TensorFlow, or CTranslate2 where it is asked for and can."""

import logging
from collections.abc import Mapping
from pathlib import Path

from t2t.checkpoints.checkpoint import Checkpoint
from t2t.errors import UserError
from t2t.inference.ctranslate2.cache import ConversionCache
from t2t.inference.ctranslate2.conversion import model_complaints
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.ctranslate2.tokens import TokenLists
from t2t.inference.engine import Engine
from t2t.inference.engine_choice import AUTO, TENSORFLOW, EngineChoice, ctranslate2_is_installed
from t2t.inference.fallback import Demand, FallbackEngine
from t2t.inference.rows import max_sequence_ids
from t2t.inference.translator import Translator

log = logging.getLogger("t2t")

POSITIONS_STEP = 1024
"""A conversion has a multiple of so many positions, so that longer inputs or outputs seldom need another one."""

DEMANDS: Mapping[str, Demand] = {"float32": Demand(0.9, 1e-3)}
"""What `auto` demands of CTranslate2, by compute type. Of two beam searches a few outputs differ in any case."""
ROUNDED = Demand(0.5, 0.5)
"""The same of the others, as exports are held to."""


def engine_of(translator: Translator, run: Path, checkpoint: Checkpoint, choice: EngineChoice) -> Engine:
    """Returns the engine to decode with.

    Args:
        translator: of the run, with TensorFlow.
        run: its folder, which keeps conversions.
        checkpoint: whose weights the model has.
        choice: what is asked for.

    Raises:
        UserError: CTranslate2 is asked for by name and is not installed, or cannot hold the model or compute so.
    """
    choice.check()
    if choice.engine == TENSORFLOW:
        return translator.tensorflow
    found = model_complaints(translator.model)
    if choice.engine == AUTO and (found or not ctranslate2_is_installed()):
        reason = "; ".join(found) or "CTranslate2 is not installed (pip install 't2t-keras[ctranslate2]')"
        log.info("--engine=auto: TensorFlow decodes: %s", reason)
        return translator.tensorflow
    if found:
        raise UserError(f"--engine=ctranslate2: it cannot hold this model: {'; '.join(found)}; leave it out")
    demand = DEMANDS.get(choice.compute_type, ROUNDED) if choice.engine == AUTO else None
    return _ctranslate2(translator, run, checkpoint, choice.compute_type, demand)


def _ctranslate2(
    translator: Translator, run: Path, checkpoint: Checkpoint, compute_type: str, demand: Demand | None
) -> Engine:
    problem, model, hparams = translator.problem, translator.model, translator.hparams
    longest = -(-(max_sequence_ids(model, hparams) + hparams.extra_length) // POSITIONS_STEP) * POSITIONS_STEP
    tokens = TokenLists.of_encoders(problem.encoders)
    cache = ConversionCache(run, checkpoint.name, f"{checkpoint.fingerprint} {problem.name} {longest}")
    with cache.opened(model, tokens, longest) as folder:
        fast = CTranslate2Engine(folder, tokens, longest, model.longest_sequence, compute_type)
    return FallbackEngine(fast, translator.tensorflow, demand, cache)
