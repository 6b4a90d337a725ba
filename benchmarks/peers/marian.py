"""Decodes with Marian's CPU engine, as packaged by Bergamot, and our weights.

Settings of Marian's documentation (*Command-line options: marian-decoder*) and of the models that Bergamot's authors
publish: one single-threaded worker per core, batches of 1,024 words, and with int8 `int8shiftAll`, which uses VNNI if
the processor has it. No shortlist, since no other program here gets one.

Its inputs and outputs are text, which it splits into pieces itself with our vocabulary. It cannot score given outputs,
so the comparison of outputs shows whether it has the same model.

Legend: V vocabulary, D width.
"""

import glob
import importlib.util
import os
import sys
import sysconfig

import numpy as np
import sentencepiece
import yaml

from benchmarks.harness.child import read_job, versions
from benchmarks.harness.decoding_child import time_decoding
from benchmarks.peers._weights import Weights

MOST_PIECES = 128
"""Maximum pieces of a sentence; Marian splits longer ones."""

PRECISIONS = {"float32": "float32", "int8": "int8shiftAll"}

ARCHITECTURE = {
    "type": "transformer", "version": "v1.9.0", "input-types": [], "skip": False, "right-left": False,
    "layer-normalization": False, "lemma-dim-emb": 0, "max-length": 1024,
    "tied-embeddings": False, "tied-embeddings-src": False, "tied-embeddings-all": True,
    "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "", "transformer-decoder-autoreg": "self-attention",
    "transformer-ffn-depth": 2, "transformer-decoder-ffn-depth": 2, "transformer-ffn-activation": "relu",
    "transformer-train-positions": False, "transformer-train-position-embeddings": False,
    "transformer-no-projection": False, "transformer-no-bias": False, "transformer-no-affine": False,
    "transformer-dim-aan": 0, "transformer-aan-depth": 0, "transformer-aan-activation": "relu",
    "transformer-aan-nogate": False, "transformer-tied-layers": [], "transformer-guided-alignment-layer": "last",
    "transformer-pool": False,
}  # fmt: skip
"""Our Transformer: norms after each sub-layer, ReLU, sinusoidal positions, one shared embedding."""


def main():
    """Writes the outputs and times of all searches."""
    job = read_job()
    check_job(job)
    engine = load_engine()
    pieces = sentencepiece.SentencePieceProcessor(model_file=job["vocabulary"])
    texts = [pieces.decode(ids) for ids in job["sentences"]]
    if [pieces.encode(text) for text in texts] != job["sentences"]:
        sys.exit("some sentences are split into other pieces once they are text")
    write_model(Weights(job["weights"]), job["sizes"], job["result"] + ".npz")
    service = engine.Service(engine.ServiceConfig(numWorkers=job["threads"], cacheSize=0, logLevel="warn"))
    models = {beam: service.modelFromConfig(yaml.safe_dump(options(job, beam))) for beam in job["beams"]}
    how = engine.ResponseOptions(qualityScores=False, alignment=False, HTML=False)

    def decode(beam):
        found = service.translate(models[beam], engine.VectorString(texts), how)
        return [pieces.encode(response.target.text) for response in found]

    about = f"{PRECISIONS[job['compute_type']]}, {job['threads']} workers"
    time_decoding(job, decode, lambda pairs: None, versions("bergamot", "sentencepiece", "numpy"), about)


def check_job(job):
    """Exits with the reason if Marian cannot do the same work as the other sides."""
    layout = job["sizes"]["hparams"].get("sinusoid_layout", "interleaved")
    if layout != "split":
        sys.exit("its positions are Tensor2Tensor's, sinusoid_layout=split; the run has " + layout)
    if not job["vocabulary"]:
        sys.exit("it needs one vocabulary of SentencePiece for both sides")
    if job["fixed"]:
        sys.exit("it cannot make outputs go on until they are cut; name a trained run, or --train_steps")
    if max(map(len, job["sentences"])) >= MOST_PIECES:
        sys.exit(f"a sentence has {MOST_PIECES} pieces or more")


def load_engine():
    """Loads only the extension module of the package; importing the package downloads a list of models."""
    (file,) = glob.glob(os.path.join(sysconfig.get_paths()["purelib"], "bergamot", "_bergamot*.so"))
    spec = importlib.util.spec_from_file_location("_bergamot", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(job, beam):
    """Returns Marian's options for a model and its search."""
    # Marian limits outputs to a multiple of the source length, the other sides to the source length plus some ids.
    most = 1 + job["extra_length"] * len(job["sentences"]) / sum(map(len, job["sentences"]))
    return {
        "models": [job["result"] + ".npz"], "vocabs": [job["vocabulary"]] * 2, "beam-size": beam,
        "normalize": 0, "word-penalty": 0, "max-length-factor": most, "skip-cost": beam == 1,
        "gemm-precision": PRECISIONS[job["compute_type"]],
        "mini-batch-words": 1024, "max-length-break": MOST_PIECES, "workspace": 128, "cpu-threads": 0,
        "ssplit-mode": "sentence", "quiet": True, "quiet-translation": True,
    }  # fmt: skip


def write_model(weights, sizes, path):
    """Writes our weights with Marian's names and description of the network."""
    table_VD = weights["target_embedding/table"]
    arrays = {"Wemb": table_VD, "decoder_ff_logit_out_b": np.zeros((1, len(table_VD)), np.float32)}
    for stack in ("encoder", "decoder"):
        for number in range(sizes["layers"]):
            arrays.update(_layer(weights, stack, number))
    network = {
        **ARCHITECTURE, "dim-vocabs": [len(table_VD)] * 2, "dim-emb": sizes["width"], "enc-depth": sizes["layers"],
        "dec-depth": sizes["layers"], "transformer-heads": sizes["heads"], "transformer-dim-ffn": sizes["inner"],
        "transformer-decoder-dim-ffn": sizes["inner"],
    }  # fmt: skip
    described = np.frombuffer((yaml.safe_dump(network) + "\0").encode(), np.int8)
    np.savez(path, **{"special:model.yml": described}, **arrays)


def _layer(weights, stack, number):
    """Returns the arrays of a layer: kernels as in our models, vectors as rows (1, D)."""
    theirs, ours = f"{stack}_l{number + 1}", f"{stack}/layer_{number}"
    attentions = [("self", "self_attention"), *([("context", "encdec_attention")] if stack == "decoder" else [])]
    dense, norms = {}, {}
    for their_name, our_name in attentions:
        for letter, part in (("q", "query"), ("k", "key"), ("v", "value"), ("o", "output")):
            dense[f"{their_name}_W{letter}", f"{their_name}_b{letter}"] = weights.projections(
                f"{ours}/{our_name}", (part,)
            )
        norms[f"{their_name}_Wo_ln"] = weights.norm(f"{ours}/{our_name}")
    for digit, part in (("1", "inner"), ("2", "outer")):
        dense[f"ffn_W{digit}", f"ffn_b{digit}"] = weights.dense(f"{ours}/ffn/{part}")
    norms["ffn_ffn_ln"] = weights.norm(f"{ours}/ffn")
    arrays = {}
    for (kernel, bias), (transposed, vector) in dense.items():
        arrays[f"{theirs}_{kernel}"], arrays[f"{theirs}_{bias}"] = np.ascontiguousarray(transposed.T), vector[None]
    for name, (gamma, beta) in norms.items():
        arrays[f"{theirs}_{name}_scale"], arrays[f"{theirs}_{name}_bias"] = gamma[None], beta[None]
    return arrays


if __name__ == "__main__":
    main()
