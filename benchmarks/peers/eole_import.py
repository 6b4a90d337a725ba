"""Makes a small Eole model with random weights, saves it in Eole's format, and writes its outputs."""

import json
import pathlib

import torch

from benchmarks.harness.child import read_job
from benchmarks.peers._absent import stand_in_for
from benchmarks.peers._token_answers import tokens_of
from benchmarks.peers._token_models import randomise, write_answers

stand_in_for("spacy", "ahocorasick", "tensorboard", "fasttext", "rapidfuzz", "scipy", "pyarrow", "subword_nmt")

from eole.config import recursive_model_fields_set  # noqa: E402
from eole.config.run import TrainConfig  # noqa: E402
from eole.inputters.inputter import dict_to_vocabs, vocabs_to_dict  # noqa: E402
from eole.models.model import get_model_class  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

SPECIAL = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}


def main():
    """Saves the model and writes its outputs."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    folder = pathlib.Path(job["folder"])
    tokens = [tokens_of(job[name], list(SPECIAL.values())) for name in ("sources", "targets")]
    lists = {"src": tokens[0], "tgt": tokens[1], "data_task": "seq2seq", "decoder_start_token": "<s>"}
    vocabs = dict_to_vocabs({**lists, "specials": SPECIAL})
    network = {
        "architecture": "transformer", "layers": job["layers"], "hidden_size": job["width"], "heads": job["heads"],
        "transformer_ff": job["ffn_dim"], **job["model"],
        "embeddings": {"word_vec_size": job["width"], "position_encoding_type": "SinusoidalInterleaved"},
    }  # fmt: skip
    training = {"dropout": [0.0], "attention_dropout": [0.0], "model_path": str(folder)}
    config = TrainConfig(data={}, src_vocab="none", tgt_vocab="none", model=network, training=training)
    model = get_model_class(config.model).build(config.model, vocabs, config.training)
    randomise(job, model)
    save_file(model.state_dict(), folder / "model.00.safetensors")
    for name, values in (("vocab", vocabs_to_dict(vocabs)), ("config", recursive_model_fields_set(config))):
        (folder / f"{name}.json").write_text(json.dumps(values, default=str))
    model.eval()
    model.decoder.train()  # in eval mode the decoder expects a cache; there is no dropout

    def log_probs(source, target):
        ids = [torch.tensor(side)[None] for side in (source, [*target, 0, 0])]  # one target would be a decoding step
        hidden = model(ids[0], ids[1], torch.tensor([len(source)])).dec_out
        return torch.log_softmax(model.generator(hidden)[0], dim=-1)[: len(target)]

    sides = [vocabs[side] for side in ("src", "tgt")]
    write_answers(job, sides, [vocabs["tgt"][token] for token in ("<s>", "</s>", "<unk>")], log_probs)


if __name__ == "__main__":
    main()
