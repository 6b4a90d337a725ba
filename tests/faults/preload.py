"""What warm processes have imported when they are forked: all that the commands import, and nothing done with it."""

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import t2t.cli.decoder
import t2t.cli.trainer
import t2t.file_decoding.job
import t2t.inference.parallel
import t2t.runs.describing
import t2t.runs.loading
import t2t.runs.training  # noqa: F401
