"""Exports a run as a transformers folder: `MarianMTModel` or `T5ForConditionalGeneration`, with its tokenizer."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from t2t.checkpoints.arrays import write_arrays
from t2t.errors import UserError, one_line
from t2t.formats.exporter import BEAM_SEARCH, GREEDY, UNCONSTRAINED, Export, ExportJob, Trial, beams, length_exponent
from t2t.formats.huggingface.card import describe, front_matter, scores_of
from t2t.formats.huggingface.marian_write import marian_complaints, marian_network
from t2t.formats.huggingface.network import Network, model_complaints
from t2t.formats.huggingface.t5_write import t5_complaints, t5_network
from t2t.formats.huggingface.tokenizer import shows_alike, tokenizer_complaints, write_json, write_tokenizer
from t2t.formats.made_inputs import example_text, make_outputs
from t2t.formats.parity import (
    PROMISES,
    TEXTS_OF_IDS,
    ComparedOutput,
    Parity,
    ParityError,
    Promise,
    answers_of_run,
    compare,
    compare_texts,
)
from t2t.inference.ctranslate2 import conversion
from t2t.inference.rows import NOT_FINITE, max_sequence_ids
from t2t.inference.translator import Translator
from t2t.specs.constants import EOS_ID, PAD_ID, TARGETS

TENSORS = "model.safetensors"
_SCRIPT = Path(__file__).with_name("answers.py")
_LARGEST_POSITIONS = 10**9


class HuggingFaceExport(Export):
    """Exports a token-to-token Transformer with the network of Marian or T5.

    Args:
        translator: translator of the run.
        job: the export request.
        interpreter: path of a Python with transformers and PyTorch, for the comparison.
    """

    search: ClassVar[Mapping[str, tuple | None] | None] = {
        **BEAM_SEARCH, "min_output_length": None, "no_repeat_ngram_size": None,
    }  # fmt: skip

    def __init__(self, translator: Translator, job: ExportJob, interpreter: str = sys.executable):
        super().__init__(translator, job)
        self._interpreter = interpreter
        self._check()
        model = translator.model
        self._network: Network = (t5_network if not t5_complaints(model.hparams) else marian_network)(model)
        if not all(np.isfinite(tensor).all() for tensor in self._network.tensors.values()):
            raise UserError(NOT_FINITE)
        self._scores = scores_of(job.run, str(job.origin.get("checkpoint", "")), int(job.origin.get("step", 0)))

    def _check(self) -> None:
        """Raises UserError if transformers has no such model."""
        model = self.translator.model
        found = conversion.modality_complaints(model) or model_complaints(model)
        if not found and (of_marian := marian_complaints(model.hparams)) and (of_t5 := t5_complaints(model.hparams)):
            found = [f"Marian's has other settings than {', '.join(of_marian)}; T5's than {', '.join(of_t5)}"]
        found = found or tokenizer_complaints(self.translator.problem.encoders) + self.language_complaints()
        if found:
            others = ["saved_model", *([] if conversion.model_complaints(model) else ["ctranslate2"])]
            others += [] if model.mask_predicts else ["onnx"]
            raise UserError(
                f"--format=huggingface: transformers has no such model: {'; '.join(found)}; use {' or '.join(others)}"
            )

    def write(self, folder: Path) -> None:
        """Writes configuration, weights and tokenizer."""
        network = self._network
        write_json(folder / "config.json", network.config)
        write_json(folder / "generation_config.json", self._search())
        write_arrays(folder / TENSORS, network.tensors, {"format": "pt"})  # metadata required by transformers 4
        write_tokenizer(folder, self.translator.problem.encoders, network.longest, network.start)

    def _search(self) -> dict[str, Any]:
        network, hparams = self._network, self.translator.hparams
        constraints = {
            "min_new_tokens": hparams.min_output_length,
            "no_repeat_ngram_size": hparams.no_repeat_ngram_size,
        }
        return {
            "pad_token_id": PAD_ID,
            "eos_token_id": EOS_ID,
            "decoder_start_token_id": network.start,
            "bad_words_ids": [[PAD_ID]],
            "num_beams": beams(hparams),
            "length_penalty": length_exponent(hparams),
            "early_stopping": False,
            "max_length": network.longest or self.translator.model.hparams.max_length,
            **({"forced_eos_token_id": EOS_ID} if "forced_eos_token_id" in network.config else {}),
            **{name: value for name, value in constraints.items() if value},
        }

    def verify(self, folder: Path, trial: Trial) -> dict[str, Parity]:
        """Compares the ids of texts, and greedy search; beam searches differ, so their agreement is only reported."""
        rows, extra = self._cut(trial.rows)
        limits = [len(row) + extra for row in rows]
        encoders, promise, found = self.translator.problem.encoders, PROMISES[self.job.quantization], {}
        made = [ids for ids in make_outputs(self.translator, len(rows)) if shows_alike(encoders, ids)]
        theirs = self._ask(folder, rows=rows, limits=limits, texts=list(trial.texts or []), ids=made)
        if trial.texts is not None:
            what = "ids of texts"
            ours = [[ComparedOutput((*row, EOS_ID), 0.0)] for row in trial.rows]
            given = [[ComparedOutput(tuple(ids), 0.0)] for ids in theirs["ids"]]
            found[what] = compare(ours, given).demand(what, promise)
        texts = ([text.strip() for text in of] for of in (map(encoders[TARGETS].decode, made), theirs["texts"]))
        found[TEXTS_OF_IDS] = compare_texts(*texts).demand(TEXTS_OF_IDS, promise)
        beam = {"decode_method": "beam", "coverage_penalty": 0.0, **UNCONSTRAINED}
        searches: dict[int, tuple[str, dict[str, Any], Promise | None]] = {1: ("greedy search", GREEDY, promise)}
        if (size := beams(self.translator.hparams)) > 1:
            searches[size] = (f"beam search of {size}", beam, None)
        cut = [row[:-1] for row in rows]
        for size, (what, changes, promised) in searches.items():
            ours = answers_of_run(self.translator, cut, **{**changes, "extra_length": extra})
            ours = [[self._comparable(answer) for answer in answers] for answers in ours]
            answers = [ComparedOutput(tuple(ids), score, text) for ids, score, text in theirs["outputs"][str(size)]]
            given = [[self._comparable(answer)] for answer in answers]
            found[what] = compare(ours, given).demand(what, promised)
        return found

    def _comparable(self, answer: ComparedOutput) -> ComparedOutput:
        """Returns an answer with its text stripped, or without text if transformers would show another text."""
        is_alike = shows_alike(self.translator.problem.encoders, answer.ids or ())
        return dataclasses.replace(answer, text=(answer.text or "").strip() if is_alike else None)

    def _cut(self, rows: Sequence[Any]) -> tuple[list[list[int]], int]:
        """Returns rows with end of sequence, cut to the available positions, and how much longer outputs may be."""
        hparams, positions = self.translator.hparams, self._network.longest or _LARGEST_POSITIONS
        longest = min(positions, max_sequence_ids(self.translator.model, hparams))
        cut = [[*map(int, row[: longest - 1]), EOS_ID] for row in rows]
        return cut, min(hparams.extra_length, positions - max(map(len, cut)))

    def _ask(self, folder: Path, **job: list[Any]) -> dict[str, Any]:
        """Returns the outputs of transformers; raises ParityError if it fails or does not load every tensor."""
        answers = folder / "answers.json"
        sizes = sorted({1, beams(self.translator.hparams)})
        task = {"folder": str(folder), "answers": str(answers), "beams": sizes, **job}
        done = subprocess.run(
            [self._interpreter, "-P", str(_SCRIPT)],  # -P: do not import files next to the script
            input=json.dumps(task),
            env=os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = one_line(done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}")
            raise ParityError(f"transformers fails where the run answers ({said[:300]}); the export is not kept")
        found = json.loads(answers.read_text(encoding="utf-8"))
        answers.unlink()
        if found["loading"]:
            raise ParityError(f"transformers does not load all of it: {found['loading']}; the export is not kept")
        return found

    def front_matter(self) -> str:
        """See the base class."""
        kind = self._network.config["model_type"]
        return front_matter(self.translator, self.job.name, self.job.origin, self._scores, kind)

    def usage(self) -> str:
        """See the base class."""
        facts = describe(self.translator, self.job.run, self.job.origin, self._scores)
        longest = self._network.longest
        limit = f" It has positions for {longest} ids; longer texts need `truncation=True`." if longest else ""
        return f"""
{facts}
A `{self._network.config["architectures"][0]}` for transformers; it needs transformers, PyTorch and sentencepiece.

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "."  # run this in the folder of the export, or name the folder
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
inputs = tokenizer({example_text(self.translator)!r}, return_tensors="pt")
print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))
```

The network is the run's own; beam search is that of transformers, which ends by rules of its own. It knows the length
penalty n^alpha (`length_penalty`) and not ((5+n)/6)^alpha, and is given the run's `min_output_length`
(`min_new_tokens`) and `no_repeat_ngram_size`, but no coverage penalty and no `eos_penalty`.{limit}
"""
