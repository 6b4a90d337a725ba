"""Makes a small MarianMTModel with random weights, saves it, and writes its outputs.

The weights are larger than usual initial weights, so that outputs differ between inputs.
"""

import pathlib

import torch
import transformers

from benchmarks.harness.child import read_job, write_result

END_BIAS = 4.0
"""Added to the logit of end of sequence, so that outputs end."""


def build(job, tokenizer):
    """Returns a model with the sizes of the job."""
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    sizes = {f"{stack}_{name}": job[name] for stack in ("encoder", "decoder") for name in ("layers", "ffn_dim")}
    heads = {f"{stack}_attention_heads": job["heads"] for stack in ("encoder", "decoder")}
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(tokenizer), d_model=job["width"], **sizes, **heads, activation_function="swish",
            max_position_embeddings=512, scale_embedding=True, pad_token_id=pad, eos_token_id=eos,
            decoder_start_token_id=pad, bos_token_id=None, forced_eos_token_id=None,
        )
    )  # fmt: skip
    torch.manual_seed(job["seed"])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:
                weight.normal_(1.0 if "norm.weight" in name else 0.0, job["deviation"])
        model.model.shared.weight[pad] = 0.0
        model.final_logits_bias.normal_(0.0, 1.0)
        model.final_logits_bias[0, eos] += END_BIAS
    return model.eval()


def answers(job, model, tokenizer):
    """Returns ids, log-probabilities of given targets, and outputs of greedy and beam search."""
    found = {"ids": [], "log_probs": [], "greedy": [], "beam": []}
    for source, target in zip(job["sources"], job["targets"], strict=True):
        inputs = tokenizer(source, return_tensors="pt")
        labels = tokenizer(text_target=target, return_tensors="pt").input_ids
        found["ids"].append([inputs.input_ids[0].tolist(), labels[0].tolist()])
        logits = model(**inputs, labels=labels).logits
        log_probs = torch.log_softmax(logits, dim=-1).gather(-1, labels[..., None])
        found["log_probs"].append(log_probs[0, :, 0].tolist())
        limit = inputs.input_ids.shape[1] + job["extra_length"]
        for name, beams in (("greedy", 1), ("beam", job["beam_size"])):
            written = model.generate(
                **inputs, num_beams=beams, do_sample=False, max_new_tokens=limit, length_penalty=0.0,
                early_stopping=False, bad_words_ids=[[tokenizer.pad_token_id]],
            )  # fmt: skip
            found[name].append(written[0, 1:].tolist())
    return found


def main():
    """Saves the same weights in three formats, and writes the outputs of the model."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    folder = pathlib.Path(job["folder"])
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files)
    model = build(job, tokenizer)
    model.save_pretrained(folder)
    for name, zipped in (("zip", True), ("stream", False)):
        torch.save(model.state_dict(), folder / f"{name}.bin", _use_new_zipfile_serialization=zipped)
    with torch.no_grad():
        write_result(job, **answers(job, model, tokenizer), special=[tokenizer.pad_token_id, tokenizer.eos_token_id, 1])


if __name__ == "__main__":
    main()
