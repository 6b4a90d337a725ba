"""Makes a small OpenNMT-py 3 model with random weights, saves it in OpenNMT-py's format, and writes its outputs."""

import pathlib

import torch

from benchmarks.harness.child import read_job
from benchmarks.peers._absent import stand_in_for
from benchmarks.peers._token_answers import tokens_of
from benchmarks.peers._token_models import randomise, write_answers

stand_in_for("spacy", "ahocorasick", "tensorboard", "fasttext", "rapidfuzz", "scipy", "pyarrow", "subword_nmt")

import onmt.opts  # noqa: E402
from onmt.inputters.inputter import dict_to_vocabs, vocabs_to_dict  # noqa: E402
from onmt.model_builder import build_base_model  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402

SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]


def settings(job):
    """Returns the options that OpenNMT-py would save when training a model of the job's sizes."""
    given = {
        "data": "{}", "save_model": "model", "src_vocab": "none", "encoder_type": "transformer",
        "decoder_type": "transformer", "enc_layers": job["layers"], "dec_layers": job["layers"],
        "heads": job["heads"], "hidden_size": job["width"], "word_vec_size": job["width"],
        "transformer_ff": job["ffn_dim"],
    }  # fmt: skip
    parser = ArgumentParser()
    onmt.opts.train_opts(parser)
    flags = [text for name, value in given.items() for text in (f"-{name}", str(value))]
    found, _ = parser.parse_known_args([*flags, *job["flags"]])
    ArgumentParser.update_model_opts(found)
    return found


def main():
    """Saves the model and writes its outputs."""
    job = read_job()
    torch.set_num_threads(job["threads"])
    tokens = [tokens_of(job[name], SPECIAL) for name in ("sources", "targets")]
    lists = {"src": tokens[0], "tgt": tokens[1], "data_task": "seq2seq", "decoder_start_token": "<s>"}
    vocabs, opt = dict_to_vocabs(lists), settings(job)
    model = build_base_model(opt, vocabs)
    randomise(job, model)
    state = {name: weight for name, weight in model.state_dict().items() if "generator" not in name}
    parts = {"model": state, "generator": model.generator.state_dict(), "vocab": vocabs_to_dict(vocabs), "opt": opt}
    torch.save({**parts, "optim": {"training_step": 1}}, pathlib.Path(job["folder"]) / "model_step_1.pt")
    model.eval()

    def log_probs(source, target):
        ids = [torch.tensor(side)[None, :, None] for side in (source, [*target, 0])]  # the model drops the last target
        hidden, _ = model(ids[0], ids[1], torch.tensor([len(source)]))
        return torch.log_softmax(model.generator(hidden)[0], dim=-1)

    sides = [vocabs[side] for side in ("src", "tgt")]
    write_answers(job, sides, [vocabs["tgt"][token] for token in ("<s>", "</s>", "<unk>")], log_probs)


if __name__ == "__main__":
    main()
