"""Exports a run to Marian: `model.npz`, vocabularies and `decoder.yml`.

Legend: T target length, D width, V vocabulary.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.formats.exporter import BEAM_SEARCH, GREEDY, Export, ExportJob, Trial, beams, complaints, length_exponent
from t2t.formats.marian.mapping import (
    ACTIVATIONS,
    EPSILON,
    NORM_LETTERS,
    OUTPUT,
    SETTINGS,
    SIZES,
    stack_names,
    table_names,
)
from t2t.formats.marian.network import MarianNetwork
from t2t.formats.parity import FLOAT32, PROMISES, ComparedOutput, Parity, answers_of_run, compare
from t2t.formats.tensors import weights_of
from t2t.formats.yaml import format_settings, format_vocabulary
from t2t.inference.ctranslate2.conversion import modality_complaints
from t2t.inference.rows import NOT_FINITE, Row
from t2t.inference.translator import Translator
from t2t.models.base import SequenceModel
from t2t.models.transformer import Transformer
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.imported import BpeEncoder, PieceTableEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.words import TokenEncoder

_CUTTERS = {
    "sentencepiece": "text",
    "token": "words with a space between each two",
    "piece_table": "text that `spm_encode --model={side}.spm` has cut",
    "bpe": "text that `subword-nmt apply-bpe -c {side}.bpe` has cut",
}


class MarianExport(Export):
    """Exports a token-to-token Transformer with a network that Marian supports."""

    search = BEAM_SEARCH

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        found = marian_complaints(translator.model, translator.problem.encoders) + self.language_complaints()
        if found:
            raise self.refusal(f"it cannot hold this model: {'; '.join(found)}", "use ctranslate2 or onnx")

    def write(self, folder: Path) -> None:
        """See the base class."""
        write_model(folder, self.translator.model)
        vocabularies = write_vocabularies(folder, self.translator.problem.encoders)
        write_decoder(folder, vocabularies, self.translator.hparams)

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares greedy search with a numpy version of Marian on the written model, position by position."""
        network = MarianNetwork(folder / MODEL)
        expected = answers_of_run(self.translator, trial.rows, **GREEDY)
        rows = self.translator.input_rows(trial.rows)
        found = [[_greedy(network, row, answers[0])] for row, answers in zip(rows, expected, strict=True)]
        what = "greedy search"
        return {what: compare(expected, found).demand(what, PROMISES[FLOAT32])}

    def usage(self) -> str:
        """See the base class."""
        encoders = self.translator.problem.encoders
        reads, writes = (
            _CUTTERS[encoders[feature].kind].format(side=side)
            for feature, side in ((INPUTS, "source"), (TARGETS, "target"))
        )
        power = f"{length_exponent(self.translator.hparams):g}"
        return f"""
A model of Marian: `{MODEL}` with its settings inside, vocabularies, and `{DECODER}`, which names them.

```bash
marian-decoder -c {DECODER} --cpu-threads 1 < inputs.txt > outputs.txt
```

Inputs are {reads}; outputs are {writes}. Ids are those of the run: padding is a word
`<pad>` to Marian, which has no padding of its own and could write it. Beam search is Marian's, with the length penalty
n^{power}. `t2t-import --from=marian` makes a run of the folder again.
"""


def _greedy(network: MarianNetwork, row: Row, answer: ComparedOutput) -> ComparedOutput:
    """Returns Marian's best id after each prefix of an answer, and the answer's score; equal ids mean equal search.

    The row is the input with end of sequence, as the run reads it.
    """
    ids = answer.ids or (EOS_ID,)
    log_probs_TV = network.log_probs(list(row), ids)
    score = float(log_probs_TV[np.arange(len(ids)), list(ids)].sum())
    log_probs_TV[:, PAD_ID] = -np.inf
    return ComparedOutput(tuple(int(choice) for choice in log_probs_TV.argmax(-1)), score)


MODEL, DECODER = "model.npz", "decoder.yml"

_SIDES = {INPUTS: "source", TARGETS: "target"}
_NEEDED: Mapping[str, tuple[Any, ...]] = {
    "norm_position": ("post",), "positions": ("sinusoidal",), "sinusoid_layout": ("split",),
    "activation": tuple(ACTIVATIONS.values()),
    "gated_feed_forward": (False,), "self_attention_window": (0,), "decoder_layer": ("self_attention",),
    "norm_epsilon": (EPSILON,), "target_start": ("zero",), "target_space_embedding": (False,),
    "input_end": (True,), "relative_keys": (0,),
}  # fmt: skip
"""Hparam -> values that Marian supports. Pre-norm is not among them: Marian's decoder then does not norm the keys."""
_FIXED: Mapping[str, Any] = {
    "type": "transformer", "version": "v1.9.0", "input-types": [], "skip": False, "right-left": False,
    "layer-normalization": False, "lemma-dim-emb": 0, "output-omit-bias": False, "transformer-postprocess-emb": "d",
    "transformer-decoder-autoreg": "self-attention", "transformer-ffn-depth": 2, "transformer-decoder-ffn-depth": 0,
    "transformer-train-position-embeddings": False,
    "transformer-no-projection": False, "transformer-dim-aan": 2048,
    "transformer-aan-depth": 2, "transformer-aan-activation": "swish", "transformer-aan-nogate": False,
    "transformer-tied-layers": [], "transformer-guided-alignment-layer": "last", "transformer-pool": False,
    "max-length": 1000,
}  # fmt: skip
"""Settings that are the same for all runs."""


def marian_complaints(model: SequenceModel, encoders: Mapping[str, TextEncoder]) -> list[str]:
    """Returns the reasons why Marian does not support a network or a vocabulary; empty if it does."""
    if found := modality_complaints(model):
        return found
    hparams = model.hparams
    found = complaints(hparams, _NEEDED)
    if {hparams.key_channels, hparams.value_channels} != {hparams.hidden_size}:
        found.append(f"attention channels other than hidden_size={hparams.hidden_size}")
    if hparams.num_decoder_heads not in (0, hparams.num_heads):
        found.append(f"num_decoder_heads={hparams.num_decoder_heads} (Marian has one number, {hparams.num_heads})")
    if hparams.num_kv_heads not in (0, hparams.num_heads):
        found.append(f"num_kv_heads={hparams.num_kv_heads}: its heads have keys and values each")
    if any(hparams.experts_in(layer) for layer in range(max(hparams.encoder_layers, hparams.decoder_layers))):
        found.append("it has no mixtures of experts as these")
    readable = (SentencePieceEncoder, PieceTableEncoder, BpeEncoder, TokenEncoder)
    others = {encoder.kind for encoder in encoders.values() if type(encoder) not in readable}
    return found + [f"a vocabulary of kind {kind}" for kind in sorted(others)]


def write_model(folder: Path, model: Transformer) -> None:
    """Writes `model.npz` for a model without complaints; raises UserError if weights are not finite."""
    hparams, arrays = model.hparams, _tables(model)
    weights = weights_of(model)
    for name, path in stack_names(hparams).items():
        of_side = hparams.of_decoder if path.startswith("decoder/") else hparams
        width = of_side.filter_size if path.endswith("inner/bias") else hparams.hidden_size
        array = weights[path] if path in weights else np.zeros(width, np.float32)  # Marian always has biases
        arrays[name] = array if array.ndim == 2 else array[None]
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise UserError(*NOT_FINITE)
    described = np.frombuffer(format_settings(_settings(model)).encode() + b"\0", np.int8)
    entries: dict[str, Any] = {SETTINGS: described, **arrays}
    np.savez(folder / MODEL, **entries)


def write_vocabularies(folder: Path, encoders: Mapping[str, TextEncoder]) -> list[str]:
    """Writes vocabularies and the files for splitting texts; returns the vocabulary names of source and target.

    Ids are those of the run: padding 0, which is a word `<pad>` in Marian, end of sequence 1 and unknown 2.
    """
    is_shared = encoders[INPUTS].fingerprint == encoders[TARGETS].fingerprint
    names = []
    for feature, side in _SIDES.items():
        encoder = encoders[feature]
        name = "vocab" if is_shared else f"vocab.{side}"
        if isinstance(encoder, SentencePieceEncoder):
            names.append(f"{name}.spm")
            (folder / names[-1]).write_bytes(encoder.to_bytes())
            continue
        words = [encoder.piece(token_id) for token_id in range(encoder.vocab_size)]
        names.append(f"{name}.yml")
        (folder / names[-1]).write_text(format_vocabulary(["<pad>", "</s>", "<unk>", *words[3:]]), encoding="utf-8")
        if isinstance(encoder, PieceTableEncoder):
            (folder / f"{side}.spm").write_bytes(encoder.model)
        elif isinstance(encoder, BpeEncoder):
            (folder / f"{side}.bpe").write_bytes(encoder.codes)
    return names


def write_decoder(folder: Path, vocabularies: list[str], hparams: Any) -> None:
    """Writes `decoder.yml`, the configuration for `marian-decoder -c`."""
    settings = {
        "relative-paths": True,
        "models": [MODEL],
        "vocabs": vocabularies,
        "beam-size": beams(hparams),
        "normalize": length_exponent(hparams),
        "word-penalty": 0.0,
        "allow-unk": True,
        "mini-batch": 16,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }
    (folder / DECODER).write_text(format_settings(settings), encoding="utf-8")


def _tables(model: Transformer) -> dict[str, np.ndarray]:
    """Returns embedding tables (V, D) and the bias of logits (1, V), by Marian's names."""
    target_VD = np.asarray(model.target_embedding.table)
    names = table_names(model.source_embedding is model.target_embedding)
    arrays = {names["target_embedding"]: target_VD}
    arrays[names["source_embedding"]] = np.asarray(model.source_embedding.table)  # the same array if it is shared
    if model.top.embedding is None:
        arrays[f"{OUTPUT}_Wt"] = np.asarray(model.top.table())
    bias_V = np.zeros(len(target_VD), np.float32) if model.top.bias is None else np.asarray(model.top.bias)
    return arrays | {f"{OUTPUT}_b": bias_V[None]}


def _settings(model: Transformer) -> dict[str, Any]:
    hparams, letter = model.hparams, NORM_LETTERS[model.hparams.norm_type]
    is_shared = model.source_embedding is model.target_embedding
    is_tied = model.top.embedding is not None
    layers = {"num_encoder_layers": hparams.encoder_layers, "num_decoder_layers": hparams.decoder_layers}
    assert model.spec.inputs is not None, "a model without inputs has been refused"
    return {
        **_FIXED,
        "dim-vocabs": [model.spec.inputs.vocab_size, model.spec.targets.vocab_size],
        **{theirs: layers.get(ours) or getattr(hparams, ours) for theirs, ours in SIZES.items()},
        "transformer-decoder-dim-ffn": hparams.decoder_filter_size,
        "transformer-ffn-activation": next(n for n, ours in ACTIVATIONS.items() if ours == hparams.activation),
        "transformer-preprocess": "",
        "transformer-postprocess": f"da{letter}",
        "transformer-postprocess-top": "",
        "tied-embeddings-all": is_shared and is_tied,
        "tied-embeddings-src": is_shared and not is_tied,
        "tied-embeddings": is_tied and not is_shared,
    }
