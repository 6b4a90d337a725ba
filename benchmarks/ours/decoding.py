"""Times decoding as in `t2t-decoder`, with a run's latest checkpoint and the job's engine."""

import os

import t2t
from benchmarks.harness.child import read_job, versions
from benchmarks.harness.decoding_child import time_decoding
from t2t.inference.engine import TENSORFLOW
from t2t.inference.translator import Translator
from t2t.runs.loading import load
from t2t.runs.startup import prepare_framework, start_command
from t2t.specs import EOS_ID


def main():
    """Writes the outputs and times of all searches."""
    job = read_job()
    engine = job.get("engine", TENSORFLOW)
    if engine == TENSORFLOW:  # other engines start without TensorFlow, as in t2t-decoder
        os.environ.pop("TF_NUM_INTRAOP_THREADS", None)  # the process may use only its own cores anyway
        start_command()
        prepare_framework()
        from t2t.inference.parallel import use_single_core_ops

        use_single_core_ops()
    translator = build_translator(job["run"], job["fixed"], engine)
    longest = max(map(len, job["sentences"])) + 1
    mean = sum(map(len, job["sentences"])) / len(job["sentences"]) + 1

    def decode(beam):
        how = {"beam_size": beam, "alpha": 0.0, "extra_length": job["extra_length"], "max_input_length": longest}
        if engine == TENSORFLOW:
            # About as many rows of a batch as the others have; the translator sorts and batches sentences itself.
            how["decode_batch_size"] = round(job["batch"] * beam * mean)
        found = translator.translate_ids(job["sentences"], scored=False, **how)
        return [[i for i in best.ids if i != EOS_ID] for best, *_ in found]

    def score(pairs):
        return translator.score_ids(*zip(*pairs, strict=True))

    own = ["keras", os.environ.get("KERAS_BACKEND", "tensorflow")] if engine == TENSORFLOW else [engine]
    packages = versions("numpy", *own)
    time_decoding(job, decode, score, packages, translator.engine.name)


def build_translator(run: str, never_ending: bool, engine: str = TENSORFLOW):
    """Returns the run's translator; with `never_ending`, all outputs have the maximum length."""
    if not never_ending:
        return t2t.load(run, engine=engine)
    loaded = load(run)
    prepare_framework()
    import keras

    from t2t.models.transformer import Transformer
    from t2t.training.weights import assign_model

    class NeverEnding(Transformer):
        """Never selects the end of sequence while decoding."""

        def decode_step(self, ids_N, position, cache, encoded):
            logits_NV, cache = super().decode_step(ids_N, position, cache, encoded)
            ends_V = keras.ops.one_hot(EOS_ID, logits_NV.shape[-1])
            return logits_NV - 1e9 * ends_V, cache

    model = NeverEnding(loaded.hparams, loaded.run.record.spec, name=loaded.model.name)
    assign_model(model, loaded.checkpoint.weights)
    return Translator(loaded.problem, model, loaded.hparams)


if __name__ == "__main__":
    main()
