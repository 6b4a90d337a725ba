"""M2M-100, NLLB and mBART as transformers has them: `M2M100ForConditionalGeneration`, `MBartForConditionalGeneration`.

Fan et al. 2021 (arXiv:2010.11125); NLLB Team 2022 (arXiv:2207.04672), its dense models; Liu et al. 2020
(arXiv:2001.08210) and Tang et al. 2020 (arXiv:2008.00401). Positions start at 2, since fairseq reserves those up to the
padding id, 1: M2M-100's sinusoids start there, and the first two rows of mBART's tables are unused.

Legend: D width, L positions, V vocabulary.
"""

from typing import Any

from t2t.checkpoints.arrays import Arrays
from t2t.errors import UserError
from t2t.formats.folder import ModelFolder
from t2t.formats.huggingface.bart_layers import COPIES, stacks, with_sizes
from t2t.formats.huggingface.language_vocabulary import LanguageVocabulary, read_vocabulary
from t2t.formats.huggingface.mapping import MARIAN_ACTIVATIONS
from t2t.formats.huggingface.search import search_warnings
from t2t.formats.huggingface.settings import check_settings, need
from t2t.formats.importer import DEFAULT_PROBLEM, LANGUAGES, ForeignRun, ImportRequest
from t2t.formats.tensors import Tensors
from t2t.hparams.transformer_bart import transformer_m2m, transformer_mbart
from t2t.problems.base import Problem
from t2t.specs.constants import EOS_ID, INPUTS, TARGETS
from t2t.text.language_codes import NONE

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "activation_function": tuple(MARIAN_ACTIVATIONS),
    "scale_embedding": (True,),
    "tie_word_embeddings": (True,),
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "normalize_before": (True,),
    "normalize_embedding": (True,),
    "add_final_layer_norm": (True,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (False,),
}
_TABLE = "model.shared.weight"
_FIRST_POSITION = 2


def read(folder: ModelFolder, request: ImportRequest) -> ForeignRun:
    """Reads the folder of a model and its tokenizer.

    Raises:
        UserError: a file is missing or damaged, the network differs from the Transformer here, or mBART's output
            language is unknown.
    """
    need(folder, "scale_embedding", bool)  # required, since one of the two models has an unsupported default
    check_settings(folder, _ALLOWED)
    is_mbart = folder.config["model_type"] == "mbart"
    tensors = folder.read_tensors()
    tensors.rename(_TABLE, *COPIES)
    vocabulary = read_vocabulary(folder, len(tensors.take(_TABLE)))
    problem = _problem(request, vocabulary)
    hparams = with_sizes(folder, transformer_mbart() if is_mbart else transformer_m2m())
    hparams = hparams.replace(target_start_id=_target_start(folder, vocabulary, problem))
    weights = {"target_embedding/table": tensors.take(_TABLE)[vocabulary.order], **stacks(tensors, hparams)}
    weights |= _mbart_weights(tensors, vocabulary) if is_mbart else {}
    for side in ("encoder", "decoder"):
        tensors.drop(f"model.{side}.embed_positions.weights", "sinusoids, which are computed here")
    languages = vocabulary.encoder.languages
    assert languages is not None, "its codes have been found"
    return ForeignRun(
        problem=problem,
        model="transformer_bart",
        hparams=hparams,
        hparams_set="transformer_mbart" if is_mbart else "transformer_m2m",
        weights=weights,
        unused=tensors.finish(),
        tensors=tensors.taken,
        origin=f"the model in {folder.path}",
        settings="its config.json",
        notes=(
            f"ids: padding {vocabulary.order[0]}, end of sequence {vocabulary.order[1]} and unknown "
            f"{vocabulary.order[2]} became 0, 1 and 2",
            f"{len(languages.ids)} languages; source {problem.source_language or 'to be named'}, target "
            f"{problem.target_language or 'to be named'}",
        ),
        warnings=search_warnings(folder, known=("forced_bos_token_id",)),  # the code of a language
    )


def _problem(request: ImportRequest, vocabulary: LanguageVocabulary) -> Problem:
    """Returns the problem with the vocabulary on both sides and the requested languages, or those of the folder."""
    problem = request.problem
    if problem.name == DEFAULT_PROBLEM:
        problem = type(problem)(**{**vocabulary.languages, **problem.options.changed()})
    problem = problem.with_encoders(dict.fromkeys((INPUTS, TARGETS), vocabulary.encoder))
    languages = vocabulary.encoder.languages
    assert languages is not None, "its codes have been found"
    for side in LANGUAGES:
        if language := getattr(problem, side):
            languages.find(language, f"--{side}={language}")
    return problem


def _target_start(folder: ModelFolder, vocabulary: LanguageVocabulary, problem: Problem) -> int:
    """Returns our id of the first decoder input: end of sequence, or for mBART the output language."""
    languages = vocabulary.encoder.languages
    assert languages is not None, "its codes have been found"
    if languages.target == NONE:
        if not problem.target_language:
            raise UserError(
                f"--model_dir={folder.path}: the model begins outputs with the code of their language, and its files "
                f"name none; name it with --target_language, such as {sorted(languages.ids)[0]}"
            )
        return languages.find(problem.target_language, f"--target_language={problem.target_language}")
    if (start := need(folder, "decoder_start_token_id")) != vocabulary.order[EOS_ID]:
        raise UserError(
            f"{folder.path / 'config.json'} has decoder_start_token_id={start} and eos_token_id="
            f"{vocabulary.order[EOS_ID]}; such a model begins with end of sequence, and another cannot be imported"
        )
    return EOS_ID


def _mbart_weights(tensors: Tensors, vocabulary: LanguageVocabulary) -> Arrays:
    """Returns the weights that M2M-100 lacks: tables of positions (L, D), norms of embeddings, logit biases (V,)."""
    weights = {"output_embedding/bias": tensors.take("final_logits_bias").reshape(-1)[vocabulary.order]}
    for side, path in (("encoder", "source_positions"), ("decoder", "target_positions")):
        table_LD = tensors.take(f"model.{side}.embed_positions.weight")[_FIRST_POSITION:]
        weights |= {f"{path}/positions/table": table_LD}
        weights |= tensors.norm(f"model.{side}.layernorm_embedding", f"{path}/norm")
    return weights
