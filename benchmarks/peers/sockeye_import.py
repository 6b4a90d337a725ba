"""Makes a small Sockeye 3 model with random weights, saves it in Sockeye's format, and writes its outputs."""

import pathlib

import torch
from sockeye import constants, data_io, encoder, model, transformer, vocab

from benchmarks.harness.child import read_job
from benchmarks.peers._token_answers import tokens_of
from benchmarks.peers._token_models import randomise, write_answers

LONGEST = 200


def build(job, sizes):
    """Returns a model with the sizes of the job; `sizes` are those of the source and target vocabularies."""
    stack = {
        "model_size": job["width"], "attention_heads": job["heads"], "feed_forward_num_hidden": job["ffn_dim"],
        "act_type": "relu", "num_layers": job["layers"], "dropout_attention": 0.0, "dropout_act": 0.1,
        "dropout_prepost": 0.1, "positional_embedding_type": "fixed", "preprocess_sequence": "n",
        "postprocess_sequence": "dr", "max_seq_len_source": LONGEST, "max_seq_len_target": LONGEST,
        "depth_key_value": job["width"], **job["stack"],
    }  # fmt: skip
    own = {"decoder_type": job["decoder_type"]}
    embeddings = [encoder.EmbeddingConfig(vocab_size=size, num_embed=job["width"], dropout=0.0) for size in sizes]
    statistics = data_io.DataStatistics(
        num_sents=1, num_discarded=0, num_tokens_source=1, num_tokens_target=1, num_unks_source=0, num_unks_target=0,
        max_observed_len_source=8, max_observed_len_target=8, size_vocab_source=sizes[0], size_vocab_target=sizes[1],
        length_ratio_mean=1.0, length_ratio_std=0.1, buckets=[(8, 8)], num_sents_per_bucket=[1],
        average_len_target_per_bucket=[3.0], length_ratio_stats_per_bucket=[(1.0, 0.1)],
    )  # fmt: skip
    config = model.ModelConfig(
        config_data=data_io.DataConfig(statistics, LONGEST, LONGEST, 1, 1), vocab_source_size=sizes[0],
        vocab_target_size=sizes[1], config_embed_source=embeddings[0], config_embed_target=embeddings[1],
        config_encoder=transformer.TransformerConfig(**stack),
        config_decoder=transformer.TransformerConfig(**{**stack, **own}), weight_tying_type="trg_softmax",
    )  # fmt: skip
    return model.SockeyeModel(config)


def main():
    """Saves the model and writes its outputs."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    folder = pathlib.Path(job["folder"])
    tables = []
    for side, texts in (("src", job["sources"]), ("trg", job["targets"])):
        tokens = tokens_of(texts, constants.VOCAB_SYMBOLS)
        tables.append({token: number for number, token in enumerate(tokens)})
        vocab.vocab_to_json(tables[-1], str(folder / f"vocab.{side}.0.json"))
    network = build(job, [len(table) for table in tables])
    randomise(job, network)
    network.save_config(str(folder))
    network.save_parameters(str(folder / "params.best"))
    network.eval()

    def log_probs(source, target):
        lengths = torch.tensor([[len(source), 0]]), torch.tensor([len(target)])
        ids = [torch.tensor(side)[None, :, None] for side in (source, target)]
        logits = network(ids[0], lengths[0], ids[1], lengths[1])[constants.LOGITS_NAME]
        return torch.log_softmax(logits[0], dim=-1)

    def of_side(table, end):
        return lambda words: [*(table.get(word, constants.UNK_ID) for word in words), *end]

    sides = of_side(tables[0], [constants.EOS_ID]), of_side(tables[1], [])
    write_answers(job, sides, (constants.BOS_ID, constants.EOS_ID, constants.UNK_ID), log_probs)


if __name__ == "__main__":
    main()
