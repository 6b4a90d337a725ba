"""Asks a folder what it answers, with transformers: a job as JSON on standard input, the answers to the file it names.

It runs in a process of its own, and needs transformers and PyTorch alone.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers


def main() -> None:
    """Reads a job and writes the answers."""
    job = json.load(sys.stdin)
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
    model, loading = transformers.AutoModelForSeq2SeqLM.from_pretrained(job["folder"], output_loading_info=True)
    model.eval()
    model.generation_config.forced_eos_token_id = None  # limits differ from line to line, and ours force nothing
    answers: dict[str, Any] = {
        "classes": [type(model).__name__, type(tokenizer).__name__],
        "loading": {kind: sorted(map(str, names)) for kind, names in loading.items() if names and "keys" in kind},
        "ids": [tokenizer(text).input_ids for text in job["texts"]],
    }
    with torch.inference_mode():
        for name, beams in (("greedy", 1), ("beam", job["beam_size"])):
            pairs = zip(job["rows"], job["limits"], strict=True)
            answers[name] = [_answer(model, tokenizer, row, limit, beams) for row, limit in pairs]
    Path(job["answers"]).write_text(json.dumps(answers), encoding="utf-8")


def _answer(model: Any, tokenizer: Any, row: list[int], limit: int, beams: int) -> dict[str, Any]:
    """Returns ids, text and score: of greedy search the log-probability, of beam search transformers' score."""
    written = model.generate(
        input_ids=torch.tensor([row]), num_beams=beams, do_sample=False, max_new_tokens=limit,
        return_dict_in_generate=True, output_logits=beams == 1, output_scores=beams > 1,
    )  # fmt: skip
    ids = written.sequences[0, 1:].tolist()
    eos = model.config.eos_token_id
    ids = ids[: ids.index(eos) + 1] if eos in ids else ids
    if beams == 1:
        logits = torch.cat(written.logits)[: len(ids)].double()
        score = torch.log_softmax(logits, -1).gather(-1, torch.tensor(ids)[:, None]).sum()
    else:
        score = written.sequences_scores[0]
    return {"ids": ids, "score": score.item(), "text": tokenizer.decode(ids, skip_special_tokens=True)}


if __name__ == "__main__":
    main()
