"""Decodes with an exported folder in transformers: job as JSON on standard input, outputs in the file that it names.

It runs in a separate process and only needs transformers and PyTorch.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers

_TOGETHER = 8
"""Largest number of rows in a batch."""

Output = tuple[list[int], float, str]
"""Ids, score and text."""


def main() -> None:
    """Reads a job and writes the outputs."""
    job = json.load(sys.stdin)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
    model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(job["folder"], output_loading_info=True)
    model.eval()
    settings = model.generation_config
    settings.forced_eos_token_id = None  # limits differ by line, and our search forces no end
    settings.min_new_tokens = settings.no_repeat_ngram_size = None  # the searches are compared without constraints
    answers: dict[str, Any] = {
        "classes": [type(model).__name__, type(tokenizer).__name__],
        "loading": {kind: sorted(map(str, names)) for kind, names in loading.items() if names and "keys" in kind},
        "ids": [tokenizer(text).input_ids for text in job["texts"]],
        "texts": [tokenizer.decode(ids, skip_special_tokens=True) for ids in job["ids"]],
    }
    with torch.inference_mode():
        answers["outputs"] = {beams: _outputs(model, tokenizer, job, beams) for beams in job["beams"]}
    Path(job["answers"]).write_text(json.dumps(answers), encoding="utf-8")


def _outputs(model: Any, tokenizer: Any, job: dict[str, Any], beams: int) -> list[Output]:
    """Returns the outputs of a search, row by row."""
    found: dict[int, Output] = {}
    for numbers in _alike(job):
        rows, limit = [job["rows"][number] for number in numbers], job["limits"][numbers[0]]
        found |= dict(zip(numbers, _search(model, tokenizer, rows, limit, beams), strict=True))
    return [found[number] for number in range(len(found))]


def _alike(job: dict[str, Any]) -> Iterator[list[int]]:
    """Yields batches of indices of rows with the same length and limit, which need no padding."""
    groups: dict[tuple[int, int], list[int]] = {}
    for number, row in enumerate(job["rows"]):
        groups.setdefault((len(row), job["limits"][number]), []).append(number)
    for numbers in groups.values():
        yield from (numbers[start : start + _TOGETHER] for start in range(0, len(numbers), _TOGETHER))


def _search(model: Any, tokenizer: Any, rows: list[list[int]], limit: int, beams: int) -> Iterator[Output]:
    """Yields outputs; the score is the log-probability for greedy search, and transformers' own for beam search.

    The text is that of the whole sequence, with the id that the decoder starts with, as the model card prints it.
    """
    written = model.generate(
        input_ids=torch.tensor(rows), attention_mask=torch.ones(len(rows), len(rows[0]), dtype=torch.long),
        num_beams=beams, do_sample=False, max_new_tokens=limit, return_dict_in_generate=True,
        output_logits=beams == 1, output_scores=beams > 1,
    )  # fmt: skip
    eos = model.config.eos_token_id
    for place, (start, *ids) in enumerate(written.sequences.tolist()):
        ids = ids[: ids.index(eos) + 1] if eos in ids else ids
        if beams == 1:
            logits = torch.stack([step[place] for step in written.logits[: len(ids)]]).double()
            score = torch.log_softmax(logits, -1).gather(-1, torch.tensor(ids)[:, None]).sum()
        else:
            score = written.sequences_scores[place]
        yield ids, score.item(), tokenizer.decode([start, *ids], skip_special_tokens=True)


if __name__ == "__main__":
    main()
