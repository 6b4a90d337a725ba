"""Makes a small Marian model with random weights, and writes the outputs of Marian's engine.

The weights are larger than usual initial weights, so that outputs differ between inputs.
"""

import numpy as np
import sentencepiece
import yaml

from benchmarks.harness.child import read_job, write_result
from benchmarks.peers.marian import ARCHITECTURE, load_engine

END_BIAS = 4.0
"""Added to the logit of end of sequence, so that outputs end."""


def main():
    """Writes the model, and the outputs of greedy search."""
    job = read_job()
    path = job["folder"] + "/model.npz"
    size = sentencepiece.SentencePieceProcessor(model_file=job["folder"] + "/vocab.spm").get_piece_size()
    write_model(job, path, size)
    engine = load_engine()
    service = engine.Service(engine.ServiceConfig(numWorkers=1, cacheSize=0, logLevel="warn"))
    how = engine.ResponseOptions(qualityScores=False, alignment=False, HTML=False)
    model = service.modelFromConfig(yaml.safe_dump(options(job, path)))
    responses = service.translate(model, engine.VectorString(job["sources"]), how)
    write_result(job, greedy=[response.target.text for response in responses])


def options(job, path):
    """Returns Marian's options for the model and its search."""
    return {
        "models": [path], "vocabs": [job["folder"] + "/vocab.spm"] * 2, "beam-size": 1, "normalize": 0,
        "word-penalty": 0, "max-length-factor": 6.0, "skip-cost": False, "gemm-precision": "float32",
        "mini-batch-words": 1024, "max-length-break": 128, "workspace": 128, "cpu-threads": 0,
        "ssplit-mode": "sentence", "quiet": True, "quiet-translation": True,
    }  # fmt: skip


def write_model(job, path, size):
    """Writes random weights with Marian's names and description of the network."""
    rng = np.random.default_rng(job["seed"])

    def normal(*shape, mean=0.0):
        return rng.normal(mean, job["deviation"], shape).astype(np.float32)

    def norm(name):
        return {f"{name}_ln_scale": normal(1, job["width"], mean=1.0), f"{name}_ln_bias": normal(1, job["width"])}

    arrays = {"Wemb": normal(size, job["width"]), "decoder_ff_logit_out_b": normal(1, size)}
    arrays["decoder_ff_logit_out_b"][0, 0] += END_BIAS
    for stack in ("encoder", "decoder"):
        for number in range(1, job["layers"] + 1):
            layer = f"{stack}_l{number}"
            for part in ("self", "context") if stack == "decoder" else ("self",):
                for letter in "qkvo":
                    arrays[f"{layer}_{part}_W{letter}"] = normal(job["width"], job["width"])
                    arrays[f"{layer}_{part}_b{letter}"] = normal(1, job["width"])
                arrays.update(norm(f"{layer}_{part}_Wo"))
            for digit, (inputs, outputs) in (("1", (job["width"], job["inner"])), ("2", (job["inner"], job["width"]))):
                arrays[f"{layer}_ffn_W{digit}"] = normal(inputs, outputs)
                arrays[f"{layer}_ffn_b{digit}"] = normal(1, outputs)
            arrays.update(norm(f"{layer}_ffn_ffn"))
    network = {
        **ARCHITECTURE, "dim-vocabs": [size, size], "dim-emb": job["width"], "enc-depth": job["layers"],
        "dec-depth": job["layers"], "transformer-heads": job["heads"], "transformer-dim-ffn": job["inner"],
        "transformer-decoder-dim-ffn": job["inner"], "transformer-ffn-activation": job["activation"],
    }  # fmt: skip
    described = np.frombuffer((yaml.safe_dump(network) + "\0").encode(), np.int8)
    np.savez(path, **{"special:model.yml": described}, **arrays)


if __name__ == "__main__":
    main()
