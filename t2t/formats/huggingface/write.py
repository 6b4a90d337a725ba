"""Exports a run as a folder of transformers, `MarianMTModel` or `T5ForConditionalGeneration`, with its model card."""

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
from t2t.formats.exporter import (
    BEAM_SEARCH,
    GREEDY,
    UNCONSTRAINED,
    Export,
    ExportJob,
    Trial,
    beams,
    complaints,
    length_exponent,
)
from t2t.formats.exporting import example_text, make_outputs
from t2t.formats.huggingface.mapping import Network
from t2t.formats.huggingface.marian import marian_complaints, marian_network
from t2t.formats.huggingface.t5 import t5_complaints, t5_network
from t2t.formats.huggingface.tokenizer import shows_alike, tokenizer_complaints, write_json, write_tokenizer
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
from t2t.metrics.token import LABEL
from t2t.models.base import SequenceModel
from t2t.models.transformer import Transformer
from t2t.specs import DEV, EOS_ID, PAD_ID, TARGETS

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
            raise UserError(*NOT_FINITE)
        self._scores = scores_of(job)

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
            raise self.refusal(f"transformers has no such model: {'; '.join(found)}", f"use {' or '.join(others)}")

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
            raise ParityError(f"transformers fails where the run answers ({said[:300]})", "the export is not kept")
        found = json.loads(answers.read_text(encoding="utf-8"))
        answers.unlink()
        if found["loading"]:
            raise ParityError(f"transformers does not load all of it: {found['loading']}", "the export is not kept")
        return found

    def front_matter(self) -> str:
        """See the base class."""
        kind = self._network.config["model_type"]
        return front_matter(self.translator, self.job, self._scores, kind)

    def usage(self) -> str:
        """See the base class."""
        facts = describe(self.translator, self.job, self._scores)
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


def model_complaints(model: SequenceModel) -> list[str]:
    """Returns the properties that neither Marian's nor T5's network in transformers supports."""
    if type(model) is not Transformer:
        return [f"it is a {type(model).__name__}"]
    hparams, found = model.hparams, []
    found += complaints(hparams, {"decoder_layer": ("self_attention",), "self_attention_window": (0,)})
    heads = {hparams.num_heads, hparams.of_decoder.num_heads}
    known = (0, *heads) if len(heads) == 1 else (0,)
    found += complaints(hparams, {"num_kv_heads": known, "target_space_embedding": (False,)})
    found += complaints(hparams, {"input_end": (True,), "relative_keys": (0,)})
    if hparams.key_channels != hparams.value_channels:
        found.append(
            f"attention_key_channels={hparams.key_channels}, attention_value_channels={hparams.value_channels}"
        )
    if model.source_embedding is not model.target_embedding:
        found.append("inputs and targets have tables of their own")
    return found


def scores_of(job: ExportJob) -> dict[str, float]:
    """Returns the recorded dev metrics of the checkpoint; none if it was not evaluated itself, such as an average."""
    found: dict[str, Any] = {}
    if job.run is not None and str(job.origin.get("checkpoint", "")).startswith("step-"):
        for line in job.run.metrics():
            found |= line if line["step"] == job.origin.get("step") else {}
    scores = {name.removeprefix(f"{DEV}/"): value for name, value in found.items() if name.startswith(f"{DEV}/")}
    return {name: value for name, value in scores.items() if isinstance(value, float) and not name.startswith(LABEL)}


def front_matter(translator: Translator, job: ExportJob, scores: Mapping[str, float], kind: str) -> str:
    """Returns the metadata for the Hugging Face Hub, as YAML; values are JSON, a subset of YAML."""
    problem = translator.problem
    languages = [code for code in (problem.source_language, problem.target_language) if code]
    fields: dict[str, Any] = {"library_name": "transformers"}
    fields |= {"language": list(dict.fromkeys(languages))} if languages else {}
    fields |= {"pipeline_tag": "translation"} if len(set(languages)) > 1 else {}
    fields["tags"] = ["t2t", kind, str(job.origin.get("model", "transformer"))]
    if scores:
        result = {
            "task": {"type": "translation" if len(set(languages)) > 1 else "text2text-generation"},
            "dataset": {"name": problem.name, "type": problem.name, "split": DEV},
            "metrics": [{"type": name, "value": value} for name, value in scores.items()],
        }
        fields["model-index"] = [{"name": job.name, "results": [result]}]
    lines = [f"{field}: {json.dumps(value, ensure_ascii=False)}" for field, value in fields.items()]
    return "\n".join(["---", *lines, "---", ""])


def describe(translator: Translator, job: ExportJob, scores: Mapping[str, float]) -> str:
    """Returns the table of facts, and the scores, as Markdown."""
    run, hparams_set = job.run, str(job.origin.get("hparams_set", ""))
    changed = f" with `{run.record.overrides}`" if run and run.record.overrides else ""
    data = run.record.data_fingerprint[:12] if run else ""
    facts = {
        "training data": f"problem `{translator.problem.name}`" + (f", data of fingerprint `{data}`" if data else ""),
        "hparams set": f"`{hparams_set}`{changed}" if hparams_set else "",
        "updates": f"{job.origin.get('step', 0):,}",
        "parameters": f"{translator.model.count_params():,}",
    }
    rows = [f"| {name} | {value} |" for name, value in facts.items() if value]
    lines = ["| | |", "|---|---|", *rows, "", "The license is for you to add, as `license:` in the lines in front.", ""]
    if not scores:
        return "\n".join([*lines, "The run has no scores of this checkpoint; `t2t-eval` computes them.", ""])
    update = f"{job.origin.get('step', 0):,}"
    lines += [f"Scores on the {DEV} split after update {update}, from the run's `metrics.jsonl`:", ""]
    lines += ["| metric | value |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {value:.4f} |" for name, value in scores.items()), ""])
