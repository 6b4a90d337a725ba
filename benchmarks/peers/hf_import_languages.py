"""Makes a small M2M-100, NLLB, mBART or mBART-50 with random weights, saves it, and writes its outputs."""

import pathlib

import torch
import transformers

from benchmarks.harness.child import read_job, write_result
from benchmarks.peers.hf_import import END_BIAS, answers

END_WEIGHT = 0.03
"""Factor of a direction shared by all states that is added to the embedding of end of sequence, so that outputs end."""
TOKENIZERS = {"nllb": "NllbTokenizer", "mbart": "MBartTokenizer", "mbart50": "MBart50Tokenizer"}


def open_tokenizer(job, folder):
    """Returns the tokenizer of the folder's SentencePiece model, and saves all of its files."""
    languages = {"src_lang": job["source_language"], "tgt_lang": job["target_language"]}
    if job["kind"] == "m2m":
        files = [str(folder / name) for name in ("vocab.json", "sentencepiece.bpe.model")]
        tokenizer = transformers.M2M100Tokenizer(*files, **languages)
    else:
        if job["kind"] == "nllb":  # the SentencePiece model lacks its language codes
            languages["extra_special_tokens"] = ["ace_Arab", "deu_Latn", "eng_Latn", "zul_Latn"]
        tokenizer = getattr(transformers, TOKENIZERS[job["kind"]]).from_pretrained(folder, **languages)
    tokenizer.save_pretrained(folder)
    return tokenizer


def code_of(tokenizer, language):
    """Returns the id of a language's code."""
    return tokenizer.convert_tokens_to_ids(f"__{language}__" if hasattr(tokenizer, "get_lang_token") else language)


def build(job, tokenizer):
    """Returns a model with the sizes of the job, and more rows in the embedding than the tokenizer has ids."""
    is_mbart = job["kind"].startswith("mbart")
    model_class, config_class = (
        (transformers.MBartForConditionalGeneration, transformers.MBartConfig)
        if is_mbart
        else (transformers.M2M100ForConditionalGeneration, transformers.M2M100Config)
    )
    sizes = {f"{stack}_{name}": job[name] for stack in ("encoder", "decoder") for name in ("layers", "ffn_dim")}
    heads = {f"{stack}_attention_heads": job["heads"] for stack in ("encoder", "decoder")}
    target = code_of(tokenizer, job["target_language"])
    model = model_class(
        config_class(
            vocab_size=max(len(tokenizer), target) + 120, d_model=job["width"], **sizes, **heads,
            max_position_embeddings=512,
            activation_function="gelu" if is_mbart else "relu", scale_embedding=True, forced_eos_token_id=None,
            decoder_start_token_id=target if job["kind"] == "mbart" else 2,
        )
    )  # fmt: skip
    torch.manual_seed(job["seed"])
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if "norm" in name and name.endswith("weight") else 0.0, job["deviation"])
        if is_mbart:
            model.final_logits_bias.normal_(0.0, 1.0)
            model.final_logits_bias[0, 2] += END_BIAS
        else:
            direction = torch.randn(job["width"])
            model.model.decoder.layer_norm.bias.add_(direction)
            model.model.shared.weight[2].add_(END_WEIGHT * direction)
    if job["kind"] != "mbart":
        model.generation_config.forced_bos_token_id = target
    return model.eval()


def main():
    """Saves the same weights in three formats, and writes the outputs of the model."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    folder = pathlib.Path(job["folder"])
    tokenizer = open_tokenizer(job, folder)
    model = build(job, tokenizer)
    model.save_pretrained(folder)
    for name, zipped in (("zip", True), ("stream", False)):
        torch.save(model.state_dict(), folder / f"{name}.bin", _use_new_zipfile_serialization=zipped)
    with torch.no_grad():
        found = answers(job, model, tokenizer)
    if job["kind"] == "mbart":  # its targets end with a language code after the end of sequence, which is never decoded
        found["ids"] = [[source, target[:-1]] for source, target in found["ids"]]
        found["log_probs"] = [row[:-1] for row in found["log_probs"]]
    write_result(job, **found, special=[tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id])


if __name__ == "__main__":
    main()
