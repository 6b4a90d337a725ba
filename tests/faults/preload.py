"""Imports all modules of the commands, without running anything, for the server that forks warm processes."""

from t2t.runs.startup import import_quietly

for module in (
    "t2t.cli.decoder", "t2t.cli.trainer", "t2t.inference.files.job", "t2t.inference.model_engine",
    "t2t.runs.building", "t2t.runs.describing", "t2t.runs.loading", "t2t.runs.training",
):  # fmt: skip
    import_quietly(module)
