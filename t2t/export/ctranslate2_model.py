"""Exports a run to CTranslate2, which decodes several times as fast on CPUs, with its own search.

Legend: D width, L positions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from t2t.errors import UserError
from t2t.export.ctranslate2_spec import build_spec, complaints
from t2t.export.formats import FLOAT32, PROMISES
from t2t.export.job import Export, ExportJob, Trial
from t2t.export.made_inputs import example_text
from t2t.export.parity import GREEDY, Answer, Parity, answers_of_run, compare, difference_per_token, largest_difference
from t2t.inference.rows import max_sequence_ids
from t2t.inference.translator import Translator
from t2t.layers.modalities.tokens import TokenEmbedding, TokenSoftmax
from t2t.layers.positions import sinusoids
from t2t.models.transformer import Transformer
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.specs.features import FeatureKind
from t2t.text.encoder import TextEncoder
from t2t.text.vocabulary_files import describe_encoders, save_encoders

_PROBABILITIES = "log-probability of the run's output of each line, nats per token"


class CTranslate2Export(Export):
    """The network of a Transformer from tokens to tokens."""

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        if found := _complaints(translator):
            raise UserError(f"--format=ctranslate2: it cannot hold this model: {'; '.join(found)}; use saved_model")
        self._longest = max_sequence_ids(translator.model, translator.hparams)

    def write(self, folder: Path) -> None:
        """See the base class."""
        model, encoders = self.translator.model, self.translator.problem.encoders
        weights = {v.path.partition("/")[2]: np.asarray(v) for v in model.variables} | _embedding_tables(model)
        tokens = [tokens_of(encoders[name]) for name in (INPUTS, TARGETS)]
        spec = build_spec(model.hparams, weights, self._positions(weights), *tokens)
        spec.validate()
        spec.optimize(quantization=None if self.job.quantization == FLOAT32 else self.job.quantization)
        spec.save(str(folder))
        save_encoders(folder, encoders)

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares greedy search, and for rounded weights the log-probabilities of the run's outputs.

        The two beam searches differ; how often they agree is reported, and nothing is promised.
        """
        import ctranslate2

        loaded = ctranslate2.Translator(str(folder), device="cpu", compute_type=self.job.quantization)
        asked = _CTranslate2Answers(loaded, self.translator, trial.rows)
        expected = answers_of_run(self.translator, trial.rows, **GREEDY)
        promise, is_exact = PROMISES[self.job.quantization], self.job.quantization == FLOAT32
        measure = largest_difference if is_exact else difference_per_token
        found = {}
        if not is_exact:
            found[_PROBABILITIES] = asked.compare_outputs(expected).demand(_PROBABILITIES, promise)
        what = "greedy search"
        found[what] = compare(expected, asked.answers(beam=1), measure).demand(what, promise)
        beam = self.translator.hparams.beam_size
        what = f"beam search of {beam} without length penalty"
        beams = answers_of_run(self.translator, trial.rows, decode_method="beam", alpha=0.0, coverage_penalty=0.0)
        return found | {what: compare(beams, asked.answers(beam), measure).demand(what, None)}

    def _positions(self, weights: dict[str, np.ndarray]) -> np.ndarray:
        """Returns what is added at each position of inputs and outputs, (L, D)."""
        hparams, longest = self.translator.model.hparams, self._longest + self.translator.hparams.extra_length
        if hparams.positions == "learned":
            return weights["positions/table"]
        if hparams.positions == "none":
            return np.zeros((longest, hparams.hidden_size), np.float32)
        return sinusoids(longest, hparams.hidden_size, hparams.sinusoid_layout)

    def usage(self) -> str:
        """See the base class."""
        hparams, encoders = self.translator.hparams, self.translator.problem.encoders
        penalty = hparams.alpha if hparams.length_penalty == "power" else 0
        tokens = [tokens_of(encoders[name]) for name in (INPUTS, TARGETS)]
        is_shared = tokens[0] == tokens[1]
        lists = ["shared_vocabulary.json"] * 2 if is_shared else ["source_vocabulary.json", "target_vocabulary.json"]
        files = describe_encoders(encoders)
        return f"""
A CTranslate2 model, weights in {self.job.quantization}. Its vocabularies are those of the run, `{files[INPUTS].file}`
and `{files[TARGETS].file}`; `t2t.text` reads them and loads no TensorFlow. It needs ctranslate2 and t2t.

```python
import json
from pathlib import Path

import ctranslate2
from t2t.text.vocabulary_files import read_vocabulary

folder = Path({str(self.job.folder.resolve())!r})  # change this if you move the folder
source = read_vocabulary(folder / "{files[INPUTS].file}")
target = read_vocabulary(folder / "{files[TARGETS].file}")
source_tokens = json.loads((folder / "{lists[0]}").read_text(encoding="utf-8"))
target_tokens = json.loads((folder / "{lists[1]}").read_text(encoding="utf-8"))
translator = ctranslate2.Translator(str(folder), compute_type="{self.job.quantization}")

pieces = [source_tokens[token_id] for token_id in source.encode({example_text(self.translator)!r})]
found = translator.translate_batch(
    [pieces], beam_size={hparams.beam_size}, length_penalty={penalty}, max_input_length={self._longest},
    min_decoding_length=0, max_decoding_length=len(pieces) + 1 + {hparams.extra_length},
    suppress_sequences=[[target_tokens[{PAD_ID}]]],
)
print(target.decode(target_tokens.index(token) for token in found[0].hypotheses[0]))
```

The network is the run's own; beam search is CTranslate2's, which knows the length penalty n^alpha (`length_penalty`)
and not ((5+n)/6)^alpha, and stops by rules of its own. It is given no coverage penalty.
"""


def tokens_of(encoder: TextEncoder) -> list[str]:
    """Returns a unique string for each id of a vocabulary: its piece, if no other id has it."""
    tokens: dict[str, None] = {}
    for token_id in range(encoder.vocab_size):
        piece = encoder.piece(token_id)
        tokens[f"<id {token_id}>" if not piece or piece in tokens else piece] = None
    return list(tokens)


def _complaints(translator: Translator) -> list[str]:
    """Returns why CTranslate2 cannot hold a model."""
    model = translator.model
    kinds = [feature.kind if feature else "absent" for feature in (model.spec.inputs, model.spec.targets)]
    if not isinstance(model, Transformer) or kinds != [FeatureKind.TOKENS] * 2:
        what = f"it is a {type(model).__name__}, its inputs are {kinds[0]}, its targets {kinds[1]}"
        return [f"{what}; a Transformer from tokens to tokens is wanted"]
    found = complaints(model.hparams)
    if type(model.source_embedding) is not TokenEmbedding or type(model.top) is not TokenSoftmax:
        found.append("its modalities are other than those of tokens")
    return found


def _embedding_tables(model: Transformer) -> dict[str, np.ndarray]:
    """Returns the tables of tokens, which have other paths where a model is of several problems."""
    tables = {
        "source_embedding/table": model.source_embedding.table,
        "target_embedding/table": model.target_embedding.table,
        "output_embedding/table": model.top.kernel(),
    }
    return {path: np.asarray(table) for path, table in tables.items()}


class _CTranslate2Answers:
    """What CTranslate2 answers to rows of ids."""

    def __init__(self, translator: Any, ours: Translator, rows: Sequence[Any]):
        self._translator, self._rows = translator, rows
        self._longest, self._extra = max_sequence_ids(ours.model, ours.hparams), ours.hparams.extra_length
        self._most = ours.model.longest_sequence
        source = tokens_of(ours.problem.encoders[INPUTS])
        self._sources = [[source[token_id] for token_id in row[: self._longest - 1]] for row in rows]
        self._target = tokens_of(ours.problem.encoders[TARGETS])
        self._ids = {token: token_id for token_id, token in enumerate(self._target)}

    def answers(self, beam: int) -> list[list[Answer]]:
        """Returns the best output of each row; its score is its log-probability."""
        outputs: list[tuple[int, ...]] = [()] * len(self._rows)
        lengths = list(map(len, self._sources))
        for length in sorted(set(lengths)):  # sources of equal length have the same limit of outputs
            places = [place for place, found in enumerate(lengths) if found == length]
            limit = min(length + 1 + self._extra, self._most or length + 1 + self._extra)
            results = self._translator.translate_batch(
                [self._sources[place] for place in places], beam_size=beam, length_penalty=0, max_input_length=0,
                min_decoding_length=0, max_decoding_length=limit, return_end_token=True,
                suppress_sequences=[[self._target[PAD_ID]]],
            )  # fmt: skip
            for place, result in zip(places, results, strict=True):
                outputs[place] = tuple(self._ids[token] for token in result.hypotheses[0])
        return [[Answer(*pair)] for pair in zip(outputs, self._log_probs(outputs), strict=True)]

    def compare_outputs(self, expected: Sequence[Sequence[Answer]]) -> Parity:
        """Compares the log-probabilities that the two give the run's outputs, line by line, in nats per token."""
        outputs = [answers[0].ids or () for answers in expected]
        scored = map(Answer, outputs, self._log_probs(outputs))
        apart = [difference_per_token(answers[0], found) for answers, found in zip(expected, scored, strict=True)]
        return Parity(len(outputs), None, max(apart))

    def _log_probs(self, outputs: Sequence[Sequence[int]]) -> list[float]:
        """Returns the log-probability of each output; of one without end of sequence, without that of the end."""
        targets = [[self._target[token_id] for token_id in ids if token_id != EOS_ID] for ids in outputs]
        found = self._translator.score_batch(self._sources, targets, max_input_length=0)
        return [float(sum(one.log_probs[: len(ids)])) for one, ids in zip(found, outputs, strict=True)]
