"""Trains Hugging Face's MarianMTModel on PyTorch.

Settings of the Transformers documentation (*Attention backends*, *torch.compile*): PyTorch's scaled dot-product
attention, the default, and a compiled loss if the job has `compile`. For the training loop see `_torch_training`.
"""

import transformers

from benchmarks.harness.child import read_job
from benchmarks.peers._torch_training import PAD, set_threads, train

EOS = 1

LONGEST = 512


def build(config, vocab_size, tied=True):
    """Returns a MarianMTModel with one embedding for both sides, and for the output layer too if `tied`."""
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
    """Writes the times of updates."""
    job = read_job()
    set_threads(job)
    model = build(job["config"], job["vocab_size"])

    def logits_of(inputs, shifted):
        # Target padding needs no mask: it is at the end, where it has no loss and is not attended to.
        keep = (inputs != PAD).long()
        return model(input_ids=inputs, attention_mask=keep, decoder_input_ids=shifted, use_cache=False).logits

    train(job, model, logits_of, ("transformers",))


if __name__ == "__main__":
    main()
