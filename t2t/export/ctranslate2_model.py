"""A run as a model of CTranslate2, which decodes on processors several times as fast, with a search of its own.

Legend: D width, L positions.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.constants import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.errors import UserError
from t2t.export.ctranslate2_spec import build_spec, complaints
from t2t.export.job import FLOAT32, INT8, Export, ExportJob, Trial
from t2t.export.parity import GREEDY, Answer, Parity, answers_of_run, compare
from t2t.features import FeatureKind
from t2t.inference import Translator, longest_taken
from t2t.layers.modalities.tokens import TokenEmbedding, TokenSoftmax
from t2t.layers.positions import sinusoids
from t2t.models.transformer import Transformer
from t2t.text.encoder import TextEncoder
from t2t.text.files import describe_encoders, save_encoders
from t2t.text.sentencepiece import SentencePieceEncoder

INT8_TOLERANCE = 0.1
"""Nats a token that int8 may change the log-probability of an output by, in the mean."""

_PROBABILITIES = "probabilities of the run's outputs, nats a token in the mean"


class CTranslate2Export(Export):
    """The network of a Transformer from tokens to tokens."""

    quantizations = (FLOAT32, INT8)

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        if importlib.util.find_spec("ctranslate2") is None:
            raise UserError("--format=ctranslate2: CTranslate2 is not installed; pip install 't2t[ctranslate2]'")
        if found := _complaints(translator):
            raise UserError(f"--format=ctranslate2: it cannot hold this model: {'; '.join(found)}; use saved_model")
        self._longest = longest_taken(translator.model, translator.hparams)

    def write(self, folder: Path) -> None:
        """Writes the model and the files of the vocabularies."""
        model, encoders = self.translator.model, self.translator.problem.encoders
        weights = {v.path.partition("/")[2]: np.asarray(v) for v in model.variables} | _ends(model)
        tokens = [tokens_of(encoders[name]) for name in (INPUTS, TARGETS)]
        spec = build_spec(model.hparams, weights, self._positions(weights), *tokens)
        spec.validate()
        spec.optimize(quantization=None if self.job.quantization == FLOAT32 else self.job.quantization)
        spec.save(str(folder))
        save_encoders(folder, encoders)

    def prove(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Demands the outputs of greedy search, which every search has in common, or of int8 their probabilities.

        How often the two beam searches agree, which are not the same, is told.
        """
        import ctranslate2

        loaded = ctranslate2.Translator(str(folder), device="cpu", compute_type=self.job.quantization)
        asked = _Asked(loaded, self.translator, trial.rows)
        expected = answers_of_run(self.translator, trial.rows, **GREEDY)
        greedy = compare(expected, asked.answers(beam=1))
        found = {"greedy search": greedy}
        if self.job.quantization == FLOAT32:
            greedy.demand("greedy search")
        else:
            found[_PROBABILITIES] = asked.probabilities(expected)
            found[_PROBABILITIES].demand(_PROBABILITIES, INT8_TOLERANCE)
        beam = self.translator.hparams.beam_size
        beams = answers_of_run(self.translator, trial.rows, decode_method="beam", alpha=0.0)
        return found | {f"beam search of {beam} without length penalty": compare(beams, asked.answers(beam))}

    def _positions(self, weights: dict[str, np.ndarray]) -> np.ndarray:
        """Returns what is added at each position, (L, D): as many as there are inputs and outputs for."""
        hparams, longest = self.translator.model.hparams, self._longest + self.translator.hparams.extra_length
        if hparams.positions == "learned":
            return weights["positions/table"]
        if hparams.positions == "none":
            return np.zeros((longest, hparams.hidden_size), np.float32)
        return sinusoids(longest, hparams.hidden_size, hparams.sinusoid_layout)

    def usage(self) -> str:
        """Says what to call, with which settings, and what the search does otherwise."""
        hparams, encoders = self.translator.hparams, self.translator.problem.encoders
        penalty = hparams.alpha if hparams.length_penalty == "power" else 0
        start = tokens_of(encoders[TARGETS])[PAD_ID]
        files = describe_encoders(encoders)
        said = ", ".join(f"`{file.file}` for {feature}" for feature, file in files.items())
        escaping = _SENTENCEPIECE if SentencePieceEncoder.kind in [file.kind for file in files.values()] else ""
        return f"""
A CTranslate2 model, weights in {self.job.quantization}. The vocabularies: {said}.{escaping}

```python
import ctranslate2

translator = ctranslate2.Translator("{self.job.folder.name}", compute_type="{self.job.quantization}")
found = translator.translate_batch(
    [pieces], beam_size={hparams.beam_size}, length_penalty={penalty}, max_input_length={self._longest},
    min_decoding_length=0, max_decoding_length=len(pieces) + 1 + {hparams.extra_length},
    suppress_sequences=[["{start}"]],
)
print(found[0].hypotheses[0])
```

The network is the run's own; beam search is CTranslate2's, which knows the length penalty n^alpha (`length_penalty`)
and not ((5+n)/6)^alpha, and stops by rules of its own.
"""


_SENTENCEPIECE = """
Texts are escaped before SentencePiece cuts them, U+241B to U+241B 0, then U+2581 to U+241B 1, and outputs the other way
round afterwards, U+241B 1 to U+2581, then U+241B 0 to U+241B; in most texts neither character occurs."""


def tokens_of(encoder: TextEncoder) -> list[str]:
    """Returns the ids of a vocabulary as strings that are all different: its pieces, where they are."""
    tokens: dict[str, None] = {}
    for token_id in range(encoder.vocab_size):
        piece = encoder.piece(token_id)
        tokens[f"<id {token_id}>" if not piece or piece in tokens else piece] = None
    return list(tokens)


def _complaints(translator: Translator) -> list[str]:
    """Returns what it cannot hold of a model."""
    model = translator.model
    kinds = [feature.kind if feature else "absent" for feature in (model.spec.inputs, model.spec.targets)]
    if not isinstance(model, Transformer) or kinds != [FeatureKind.TOKENS] * 2:
        found = f"it is a {type(model).__name__}, its inputs are {kinds[0]}, its targets {kinds[1]}"
        return [f"{found}; a Transformer from tokens to tokens is wanted"]
    found = complaints(model.hparams)
    if type(model.source_embedding) is not TokenEmbedding or type(model.top) is not TokenSoftmax:
        found.append("its modalities are other than those of tokens")
    return found


def _ends(model: Transformer) -> dict[str, np.ndarray]:
    """Returns the tables of tokens, which have other paths where a model is of several problems."""
    tables = {"source_embedding": model.source_embedding.table, "target_embedding": model.target_embedding.table}
    return {f"{name}/table": np.asarray(table) for name, table in tables.items()} | {
        "output_embedding/table": np.asarray(model.top.kernel())
    }


class _Asked:
    """What CTranslate2 answers to rows of ids."""

    def __init__(self, translator: Any, ours: Translator, rows: Sequence[Sequence[int]]):
        self._translator, self._rows = translator, rows
        self._longest, self._extra = longest_taken(ours.model, ours.hparams), ours.hparams.extra_length
        self._most = ours.model.longest_sequence
        source = tokens_of(ours.problem.encoders[INPUTS])
        self._sources = [[source[token_id] for token_id in row[: self._longest - 1]] for row in rows]
        self._target = tokens_of(ours.problem.encoders[TARGETS])
        self._ids = {token: token_id for token_id, token in enumerate(self._target)}

    def answers(self, beam: int) -> list[list[Answer]]:
        """Returns the best output of each row; its score is its log-probability."""
        outputs: list[tuple[int, ...]] = [()] * len(self._rows)
        for length, places in self._by_length():
            limit = min(length + 1 + self._extra, self._most or length + 1 + self._extra)
            found = self._translator.translate_batch(
                [self._sources[place] for place in places], beam_size=beam, length_penalty=0, max_input_length=0,
                min_decoding_length=0, max_decoding_length=limit, return_end_token=True,
                suppress_sequences=[[self._target[PAD_ID]]],
            )  # fmt: skip
            for place, result in zip(places, found, strict=True):
                outputs[place] = tuple(self._ids[token] for token in result.hypotheses[0])
        return [[Answer(*pair)] for pair in zip(outputs, self._log_probs(outputs), strict=True)]

    def probabilities(self, expected: Sequence[Sequence[Answer]]) -> Parity:
        """Returns by how many nats a token, in the mean, it finds the run's outputs more or less probable."""
        outputs = [answers[0].ids for answers in expected]
        scores = self._log_probs(outputs)
        apart = sum(abs(answers[0].score - score) for answers, score in zip(expected, scores, strict=True))
        return Parity(len(outputs), None, apart / sum(map(len, outputs)))

    def _log_probs(self, outputs: Sequence[Sequence[int]]) -> list[float]:
        """Returns the log-probability of each output; of one without end of sequence, without that of the end."""
        targets = [[self._target[token_id] for token_id in ids if token_id != EOS_ID] for ids in outputs]
        found = self._translator.score_batch(self._sources, targets, max_input_length=0)
        return [float(sum(one.log_probs[: len(ids)])) for one, ids in zip(found, outputs, strict=True)]

    def _by_length(self) -> Iterator[tuple[int, list[int]]]:
        """Yields how many ids a source has, and the places of all such: their outputs have the same limit."""
        lengths = list(map(len, self._sources))
        for length in sorted(set(lengths)):
            yield length, [place for place, found in enumerate(lengths) if found == length]
