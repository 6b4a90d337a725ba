"""Trains Hugging Face's MarianMTModel, on PyTorch.

Settings of the Transformers documentation (*Attention backends*, *torch.compile*): PyTorch's scaled dot-product
attention, which is the default, and where the job says so a compiled loss; the loop's are in `_torch_training`.
"""

import transformers

from benchmarks.harness.child import read_job
from benchmarks.peers._torch_training import PAD, set_threads, train

EOS = 1

LONGEST = 512


def build(config, vocab_size, tied=True):
    """Returns a MarianMTModel of a config's sizes, with one table of embeddings; `tied`: for the output layer too."""
    sizes = {
        f"{stack}_{name}": config[size]
        for stack in ("encoder", "decoder")
        for name, size in (("layers", "layers"), ("attention_heads", "heads"), ("ffn_dim", "inner"))
    }
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=vocab_size, d_model=config["width"], **sizes, dropout=config["dropout"], attention_dropout=0.0,
            activation_dropout=0.0, activation_function="relu", max_position_embeddings=LONGEST, scale_embedding=True,
            share_encoder_decoder_embeddings=True, tie_word_embeddings=tied, pad_token_id=PAD, eos_token_id=EOS,
            decoder_start_token_id=PAD, bos_token_id=None, forced_eos_token_id=None, use_cache=True,
        )
    )  # fmt: skip


def main():
    """Writes the times of some updates."""
    job = read_job()
    set_threads(job)
    model = build(job["config"], job["vocab_size"])

    def logits_of(inputs, shifted):
        # Padding of targets stands at their ends, where no loss is taken and nothing looks: it needs no mask.
        keep = (inputs != PAD).long()
        return model(input_ids=inputs, attention_mask=keep, decoder_input_ids=shifted, use_cache=False).logits

    train(job, model, logits_of, ("transformers",))


if __name__ == "__main__":
    main()
