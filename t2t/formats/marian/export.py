"""Exports a run to Marian: `model.npz`, vocabularies and `decoder.yml`.

Legend: T target length, V vocabulary.
"""

from pathlib import Path

import numpy as np

from t2t.errors import UserError
from t2t.formats.exporter import BEAM_SEARCH, GREEDY, Export, ExportJob, Trial, length_exponent
from t2t.formats.marian.network import MarianNetwork
from t2t.formats.marian.write import DECODER, MODEL, complaints, write_decoder, write_model, write_vocabularies
from t2t.formats.parity import FLOAT32, PROMISES, ComparedOutput, Parity, answers_of_run, compare
from t2t.inference.rows import Row
from t2t.inference.translator import Translator
from t2t.specs.constants import EOS_ID, INPUTS, PAD_ID, TARGETS

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
        if found := complaints(translator.model, translator.problem.encoders) + self.language_complaints():
            raise UserError(f"--format=marian: it cannot hold this model: {'; '.join(found)}; use ctranslate2 or onnx")

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
