"""Chooses the engine that decodes a run: the model itself, or CTranslate2 if requested and supported."""

import itertools
import json
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from t2t.checkpoints.checkpoint import ARCHITECTURE, Checkpoint
from t2t.checkpoints.compatibility import architecture_state
from t2t.checkpoints.dev_outputs import read_dev_outputs
from t2t.checkpoints.run_dir import RunDir
from t2t.errors import UserError
from t2t.files.processor import sees_accelerator
from t2t.hparams.base import HParams
from t2t.inference.ctranslate2.cache import ConversionCache, ConvertedModel, Ids, Questions
from t2t.inference.ctranslate2.conversion import TokenLists, write_weights
from t2t.inference.ctranslate2.engine import CTranslate2Engine, search_refusal
from t2t.inference.engine import AUTO, TENSORFLOW, Engine, EngineChoice, ctranslate2_is_installed
from t2t.inference.fallback import Demand, FallbackEngine, Judge
from t2t.inference.rows import max_sequence_ids
from t2t.inference.translator import Translator
from t2t.runs.startup import prepare_framework
from t2t.specs import EOS_ID, UNK_ID

log = logging.getLogger("t2t")

POSITIONS_STEP = 1024
"""The positions of a conversion are a multiple of this, so that longer texts seldom need a new one."""

DEMANDS: Mapping[str, Demand] = {"float32": Demand(0.9, 3e-5)}
"""Agreement that `auto` requires of CTranslate2, by compute type. Rounding of the numbers model makes a difference of
1e-6 nats a token, an epsilon of 1e-4 in place of 1e-6 one of 8e-5, gelu in place of relu 0.5."""
ROUNDED = Demand(0.5, 0.5)
"""The same for other compute types, as for exports."""
PATIENCE = 2
"""With `auto`, CTranslate2 searches until this many times as many outputs have ended as by its own rule. For 998 of the
1,000 sentences of Multi30k's test_2016_flickr it then finds TensorFlow's output (beam 5), in 1.2 times the time; by its
own rule for 960, and all others have lower scores."""

_NOTED_S = 15.0
"""Seconds of decoding from which on a missing CTranslate2 is worth a line."""
_TIMES_AS_FAST = 2.0
"""Speed of CTranslate2 with `auto`, TensorFlow's on the same processor being 1: a little less than in docs/speed.md."""

ASKED = 64
"""Inputs that both engines decode."""
_FEWEST_TEXTS = 32
"""With fewer texts from kept sentences, random ids are decoded instead."""
_MADE = 32
"""Random inputs with given outputs that both engines score."""
_LONGEST_MADE, _LONG = 24, 128
"""Maximum ids of most random sequences; of texts and of two long random sequences, for positions."""


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
    # Hparams that the checkpoint lacks came with a later version, which computes the same with their defaults.
    values = architecture_state(run.record.model, hparams)[ARCHITECTURE]
    known = checkpoint.state.get(ARCHITECTURE) or values
    values = {name: value for name, value in values.items() if name in known}
    checked = [problem, {ARCHITECTURE: values}, run.record.spec.to_dict()]
    fingerprint = f"{checkpoint.fingerprint} {json.dumps(checked, sort_keys=True)}"
    return ConversionCache(run.path, problem, checkpoint.name, fingerprint)


def settled(choice: EngineChoice, devices: tuple[int, int, int] | None) -> EngineChoice:
    """Returns the choice, with `auto` settled for TensorFlow where it decodes on devices that CTranslate2 does not use.

    Args:
        choice: the requested engine.
        devices: `worker_gpu`, `worker_cpu` and `weight_shards`; None for one device.
    """
    if choice.engine != AUTO:
        return choice
    if devices and devices != (0, 0, 1):
        _log_model_decodes("CTranslate2 has no part in --worker_gpu, --worker_cpu and --weight_shards")
    elif sees_accelerator():
        _log_model_decodes("there is a GPU, and CTranslate2 would decode on the processor")
    else:
        return choice
    return EngineChoice()


def engine_of(
    run: RunDir,
    translator: Translator,
    conversion: ConversionCache | None,
    choice: EngineChoice,
    weights: Mapping[str, np.ndarray] | None = None,
) -> Engine:
    """Returns the engine to decode with.

    Args:
        run: its kept outputs are inputs for comparisons.
        translator: of the run; with a cached conversion, its model may be lazy.
        conversion: see `conversion_of`.
        choice: the requested engine.
        weights: by variable path without the model's name, if these alone can be converted; None for those of the
            model.

    Raises:
        UserError: CTranslate2 is requested by name and does not support the model or the compute type.
    """
    if conversion is None:
        return translator.model_engine
    if conversion.known is None and (found := _model_complaints(translator)):
        if choice.engine == AUTO:
            _log_model_decodes("; ".join(found))
            return translator.model_engine
        raise UserError(
            f"it cannot hold this model: {'; '.join(found)}", "leave it out", option="engine", value="ctranslate2"
        )
    if choice.engine == AUTO and (why := _search_refusal(translator)):
        _log_model_decodes(f"CTranslate2 does not search as the run does: {why}")
        return translator.model_engine
    return _ctranslate2(run, translator, conversion, choice, weights)


def _ctranslate2(
    run: RunDir,
    translator: Translator,
    conversion: ConversionCache,
    choice: EngineChoice,
    weights: Mapping[str, np.ndarray] | None,
) -> Engine:
    facts, hparams, is_auto = translator.facts, translator.hparams, choice.engine == AUTO
    longest = -(-(max_sequence_ids(facts, hparams) + hparams.extra_length) // POSITIONS_STEP) * POSITIONS_STEP
    tokens = TokenLists.of_encoders(translator.problem.encoders, getattr(translator.hparams, "input_end", True))

    def write(folder: Path) -> None:
        if weights is not None and not translator.is_built:
            return write_weights(folder, facts.hparams, weights, tokens, longest)
        model = translator.model
        from t2t.inference.ctranslate2.conversion import write_model

        return write_model(folder, model, tokens, longest)

    with conversion.opened(ConvertedModel(longest, facts.longest_sequence), write) as folder:
        start = translator.problem.languages.marks().output_start
        patience = PATIENCE if is_auto else 1
        fast = CTranslate2Engine(
            folder, tokens, longest, facts.longest_sequence, choice.compute_type, start, patience
        )  # fmt: skip
    judge = None
    if is_auto:
        demand = DEMANDS.get(choice.compute_type, ROUNDED)
        judge = Judge(demand, conversion, lambda: questions(run, translator), hparams, facts.longest_sequence, start)
    return FallbackEngine(fast, lambda: translator.model_engine, judge)


def speed_advice(choice: EngineChoice, translator: Translator, seconds: float) -> str:
    """Returns what CTranslate2 would have saved of the time of decoding a file; empty if it is there, or little."""
    if choice.engine != AUTO or ctranslate2_is_installed() or seconds < _NOTED_S:
        return ""
    if _search_refusal(translator) or _model_complaints(translator):
        return ""
    saved = seconds * (1 - 1 / _TIMES_AS_FAST)
    return f"CTranslate2 (pip install 't2t-keras[ctranslate2]') would have saved about {saved:.0f} of {seconds:.0f} s"


def questions(run: RunDir, translator: Translator) -> Questions:
    """Returns inputs on which engines are compared, always the same for a run.

    They are searched on texts: sentences of the dev split whose outputs the run has kept, their beginnings, and pairs
    of them; random ids if there are too few, on which searches differ more often.
    """
    rng, marks = np.random.default_rng(0), translator.problem.languages.marks()
    spec, longest = translator.facts.spec, translator.longest_input
    assert spec.inputs is not None, "CTranslate2 has no other models"
    texts = _texts(run, translator.problem.name)
    made = [[*marks.input_start, *ids] for ids in _random_ids(rng, spec.inputs.vocab_size, ASKED, longest)]
    requested = translator.encode(texts)[:ASKED] if len(texts) >= _FEWEST_TEXTS else made

    def read(rows: Ids) -> Ids:
        return [list(row) for row in translator.input_rows([ids[:longest] for ids in rows])]

    lengthy = [_some_ids(rng, size.vocab_size, min(_LONG, longest)) for size in (spec.inputs, spec.targets)]
    given = _random_ids(rng, spec.targets.vocab_size, _MADE, translator.longest_target - len(marks.output_start))
    return Questions(
        search_rows=read([ids[:_LONG] for ids in requested]),
        score_rows=read([*made[:_MADE], lengthy[0]]),
        targets=[[*marks.output_start, *ids, EOS_ID] for ids in [*given, lengthy[1]]],
    )


def _texts(run: RunDir, problem: str) -> list[str]:
    """Returns kept sentences of the dev split, and more texts made of these."""
    kept = [one.sources for one in read_dev_outputs(run.dev_outputs_file) if one.problem in ("", problem)]
    texts = [text for text in dict.fromkeys(kept[-1] or ()) if text.strip()] if kept else []
    halves = [" ".join(words[: -(-len(words) // 2)]) for words in map(str.split, texts)]
    pairs = [f"{first} {second}" for first, second in itertools.pairwise(texts)]
    return list(dict.fromkeys([*texts, *halves, *pairs]))


def _random_ids(rng: np.random.Generator, vocab_size: int, count: int, longest: int) -> Ids:
    most = min(_LONGEST_MADE, longest)
    return [_some_ids(rng, vocab_size, length) for length in rng.integers(1, most + 1, count)]


def _some_ids(rng: np.random.Generator, vocab_size: int, length: int) -> list[int]:
    return rng.integers(min(UNK_ID + 1, vocab_size - 1), vocab_size, length).tolist()


def _search_refusal(translator: Translator) -> str:
    """Returns why CTranslate2 does not search by the hparams of a run; an empty text if it does."""
    if translator.constrains_outputs():
        return "it cannot keep outputs to constraints"
    return search_refusal(*translator.settings())


def _model_complaints(translator: Translator) -> list[str]:
    model = translator.model
    from t2t.inference.ctranslate2.conversion import model_complaints

    return model_complaints(model)


def _log_model_decodes(reason: str) -> None:
    prepare_framework()
    from t2t.backends import backend

    log.info("--engine=auto: %s decodes: %s", backend().name, reason)
