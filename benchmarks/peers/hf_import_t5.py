"""Makes a small T5 or mT5 with random weights, saves it, and writes its outputs."""

import pathlib

import torch
import transformers

from benchmarks.harness.child import read_job, write_result
from benchmarks.peers.hf_import import answers

END_WEIGHT = 0.5
"""Factor of a direction shared by all states that is added to the vector of end of sequence, so that outputs end."""


def build(job, tokenizer):
    """Returns a model with the sizes of the job, and more rows in its embeddings than the tokenizer has ids."""
    is_mt5, is_first = job["version"] == "mT5", job["version"] == "1.0"
    model_class, config_class = (
        (transformers.MT5ForConditionalGeneration, transformers.MT5Config)
        if is_mt5
        else (transformers.T5ForConditionalGeneration, transformers.T5Config)
    )
    model = model_class(
        config_class(
            vocab_size=len(tokenizer) + 12, d_model=job["width"], d_kv=job["head_size"], d_ff=job["ffn_dim"],
            num_layers=job["layers"], num_heads=job["heads"], feed_forward_proj="relu" if is_first else "gated-gelu",
            tie_word_embeddings=is_first, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
        )
    )  # fmt: skip
    if not is_first:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
        model.config.tie_word_embeddings = False
    torch.manual_seed(job["seed"])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm.weight" in name else 0.0, job["deviation"])
        direction = torch.randn(job["width"])
        model.shared.weight.add_(direction)
        model.lm_head.weight[1].add_(END_WEIGHT * direction)
    return model.eval()


def main():
    """Saves the same weights in three formats, and writes the outputs of the model."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    folder = pathlib.Path(job["folder"])
    tokenizer = transformers.T5Tokenizer.from_pretrained(folder)
    model = build(job, tokenizer)
    model.save_pretrained(folder)
    for name, zipped in (("zip", True), ("stream", False)):
        torch.save(model.state_dict(), folder / f"{name}.bin", _use_new_zipfile_serialization=zipped)
    with torch.no_grad():
        write_result(job, **answers(job, model, tokenizer), special=[0, 1, 2])


if __name__ == "__main__":
    main()
