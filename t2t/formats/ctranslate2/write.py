"""Exports a run to CTranslate2, which decodes several times faster on CPUs, with its own search."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t.formats.exporter import BEAM_SEARCH, GREEDY, UNCONSTRAINED, Export, ExportJob, Trial, beams, length_exponent
from t2t.formats.exporting import example_text, make_outputs
from t2t.formats.parity import (
    FLOAT32,
    PROMISES,
    ComparedOutput,
    Parity,
    ParityError,
    answers_of_run,
    compare,
    compare_per_token,
    difference_per_token,
    largest_difference,
)
from t2t.formats.vocabularies import read_vocabulary
from t2t.inference.alignment import layer_index
from t2t.inference.ctranslate2.conversion import TokenLists, model_complaints, write_model
from t2t.inference.ctranslate2.engine import CTranslate2Engine
from t2t.inference.rows import max_sequence_ids
from t2t.inference.translator import Translator
from t2t.specs import EOS_ID, INPUTS, PAD_ID, TARGETS
from t2t.text.vocabulary_files import describe_encoders

_PROBABILITIES = "log-probability of the run's output of each line, nats per token"


class CTranslate2Export(Export):
    """Exports a token-to-token Transformer to CTranslate2."""

    search: ClassVar[Mapping[str, tuple | None] | None] = {**BEAM_SEARCH, "extra_length": None}

    def __init__(self, translator: Translator, job: ExportJob):
        super().__init__(translator, job)
        if found := model_complaints(translator.model):
            raise self.refusal(f"it cannot hold this model: {'; '.join(found)}", "use saved_model")
        self._inputs = max_sequence_ids(translator.model, translator.hparams)
        self._longest = self._inputs + translator.hparams.extra_length
        self._tokens = TokenLists.of_encoders(
            translator.problem.encoders, getattr(translator.hparams, "input_end", True)
        )
        self._marks = translator.problem.languages.marks()

    def write(self, folder: Path) -> None:
        """See the base class."""
        hparams = self.translator.hparams
        layer = layer_index(hparams.alignment_layer, self.translator.model.hparams.decoder_layers)
        alignment = (layer, int(hparams.alignment_head == 1))
        write_model(folder, self.translator.model, self._tokens, self._longest, self.job.quantization, alignment)
        self.write_vocabularies(folder)

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares greedy search and, for rounded weights, the log-probabilities of the run's outputs.

        The two beam searches differ, so their agreement is only reported, not required.
        """
        run = self.translator
        rows: Any = trial.rows  # lists of ids
        self._check_vocabularies(folder, trial.texts or ())
        limits, start = (self._longest, run.model.longest_sequence), self._marks.output_start
        engine = CTranslate2Engine(folder, self._tokens, *limits, self.job.quantization, start)
        exported = Translator(run.problem, run.model, run.hparams, engine=engine)
        expected = answers_of_run(run, rows, **GREEDY)
        promise, is_exact = PROMISES[self.job.quantization], self.job.quantization == FLOAT32
        measure = largest_difference if is_exact else difference_per_token
        found = {}
        if not is_exact:
            outputs = [(answers[0].ids or ())[:-1] for answers in expected]
            scores = zip(outputs, run.score_ids(rows, outputs), strict=True)
            ours = [ComparedOutput((*ids, EOS_ID), score) for ids, score in scores]
            compared = compare_per_token(ours, exported.score_ids(rows, outputs))
            found[_PROBABILITIES] = compared.demand(_PROBABILITIES, promise)
        what = "greedy search"
        found[what] = compare(expected, answers_of_run(exported, rows, **GREEDY), measure).demand(what, promise)
        if (size := beams(run.hparams)) > 1:
            beam: dict[str, Any] = {"coverage_penalty": 0.0, **UNCONSTRAINED}
            what = f"beam search of {size}"
            compared = compare(answers_of_run(run, rows, **beam), answers_of_run(exported, rows, **beam), measure)
            found[what] = compared.demand(what, None)
        return found

    def _check_vocabularies(self, folder: Path, texts: Sequence[str]) -> None:
        """Raises ParityError if the readers in the folder give other ids of texts, or another text of ids."""
        encoders = self.translator.problem.encoders
        readers = {
            name: read_vocabulary(folder / file.file, sorted(encoders[name].unspelled))
            for name, file in describe_encoders(encoders).items()
        }
        for text in texts:
            if readers[INPUTS].encode(text) != encoders[INPUTS].encode(text):
                raise ParityError(f"{text[:80]!r} has other ids than in the run", "the export is not kept")
        for ids in make_outputs(self.translator, len(texts)):
            if readers[TARGETS].decode(ids) != encoders[TARGETS].decode(ids):
                raise ParityError(f"the ids {ids} are another text than in the run", "the export is not kept")

    def _encoded(self, text: str) -> str:
        """Returns a Python expression for the ids of a text as CTranslate2 needs them."""
        encoded, behind = f"source.encode({text!r})", [] if self._tokens.adds_end else [EOS_ID, *self._marks.input_end]
        return f"[*{list(self._marks.input_start)}, *{encoded}, *{behind}]" if any(self._marks[:2]) else encoded

    def usage(self) -> str:
        """See the base class."""
        hparams, encoders = self.translator.hparams, self.translator.problem.encoders
        is_shared = self._tokens.source == self._tokens.target
        lists = ["shared_vocabulary.json"] * 2 if is_shared else ["source_vocabulary.json", "target_vocabulary.json"]
        files, extra = describe_encoders(encoders), hparams.extra_length + self._tokens.adds_end
        limit, most = f"len(pieces) + {extra}", self.translator.model.longest_sequence
        limit = f"min({limit}, {most})" if most else limit  # number of learned positions
        start = ", ".join(f"target_tokens[{token_id}]" for token_id in self._marks.output_start)
        reserved = sorted(encoders[INPUTS].unspelled)
        reserving = f", {reserved}" if reserved else ""  # language tags, which no text spells
        source, target = (files[name].file for name in (INPUTS, TARGETS))
        theirs = f"vocabularies are those of the run, `{source}`\nand `{target}`"
        own = f"vocabulary is that of the run, `{source}`" if source == target else theirs
        packages = " and ".join(["ctranslate2", *self.packages_of_vocabularies()])
        prefix = f"\n    target_prefix=[[{start}]]," if start else ""
        return f"""
A CTranslate2 model, weights in {self.job.quantization}. Its {own},
which `vocabularies.py` reads. It needs {packages}.

```python
import json
import sys
from pathlib import Path

import ctranslate2

folder = Path(".")  # run this in the folder of the export, or name the folder
sys.path.insert(0, str(folder))
from vocabularies import read_vocabulary

source = read_vocabulary(folder / "{source}"{reserving})
target = read_vocabulary(folder / "{target}")
source_tokens = json.loads((folder / "{lists[0]}").read_text(encoding="utf-8"))
target_tokens = json.loads((folder / "{lists[1]}").read_text(encoding="utf-8"))
translator = ctranslate2.Translator(str(folder), compute_type="{self.job.quantization}")

pieces = [source_tokens[token_id] for token_id in {self._encoded(example_text(self.translator))}]
found = translator.translate_batch(
    [pieces], beam_size={beams(hparams)}, length_penalty={length_exponent(hparams):g}, max_input_length={self._inputs},
    min_decoding_length=0, max_decoding_length={limit},
    suppress_sequences=[[target_tokens[{PAD_ID}]]],{prefix}
)
print(target.decode([target_tokens.index(token) for token in found[0].hypotheses[0]]))
```

The network is the run's own; beam search is CTranslate2's, which knows the length penalty n^alpha (`length_penalty`)
and not ((5+n)/6)^alpha, and stops by rules of its own. It is given no coverage penalty, and none of
`min_output_length`, `eos_penalty`, `no_repeat_ngram_size` and `constrain_output`; its attention is that of the run's
`alignment_layer` and `alignment_head`, of which it knows 0 and 1.
"""
