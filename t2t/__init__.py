"""t2t: sequence models by name, on TensorFlow 2 and Keras 3."""

__version__ = "0.1.0"


def load(output_dir: str, checkpoint: str = "latest", usr_dir: str | None = None, problem: str = ""):
    """Loads a run directory and returns its `t2t.inference.Translator`.

    Args:
        output_dir: what `t2t-trainer --output_dir` was given.
        checkpoint: `latest`, `best`, `best.<problem>`, `averaged`, a step, or the folder of a checkpoint.
        usr_dir: folder of the plug-in that the run was trained with, where it was.
        problem: which one, of a run of several.
    """
    from t2t.runs.loading import load as load_run  # TensorFlow takes seconds to import: only when it is needed

    return load_run(output_dir, checkpoint, usr_dir, problem=problem).translator()
