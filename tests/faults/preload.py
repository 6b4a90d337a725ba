"""Imports all modules of the commands, without running anything, for the server that forks warm processes."""

import importlib

from t2t.runs.startup import prepare_framework

prepare_framework()
for module in (
    "t2t.cli.decoder", "t2t.cli.trainer", "t2t.inference.files.decoding", "t2t.inference.model_engine",
    "t2t.runs.loading", "t2t.runs.describing", "t2t.runs.loading", "t2t.runs.training",
):  # fmt: skip
    importlib.import_module(module)
