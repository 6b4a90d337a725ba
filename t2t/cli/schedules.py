"""The values of --schedule. Those of Tensor2Tensor are mapped to our own or refused."""

from absl import flags

from t2t.errors import UserError
from t2t.runs.config import TRAIN_AND_EVALUATE, TRAIN_ONLY

EVALUATE, EVALUATE_TRAIN = "evaluate", "evaluate_on_train_data"
SCHEDULES = (TRAIN_AND_EVALUATE, TRAIN_ONLY, EVALUATE, EVALUATE_TRAIN)

SYNONYMS = dict.fromkeys(("train_and_evaluate", "local_run", "train_eval_and_decode"), TRAIN_AND_EVALUATE)
"""All the same here, since evaluation during training also decodes and scores the dev split."""

_DECODER = "decode with t2t-decoder --output_dir=..., which needs nothing else"
_EVALUATOR = (
    "evaluate a checkpoint with t2t-eval --output_dir=..., or all while training with continuous_train_and_eval"
)

REFUSED = {
    "test": "see what would run with --dry_run",
    "continuous_eval": _EVALUATOR,
    "continuous_eval_on_train_data": f"{_EVALUATOR}; t2t-eval --split=train looks at training data",
    "decode": _DECODER,
    "continuous_decode": _DECODER,
    "continuous_decode_on_train_data": _DECODER,
    "continuous_decode_on_eval_data": f"{_DECODER} with --decode_split=dev",
    "continuous_decode_from_file": "decode every checkpoint with t2t-translate-all",
    "run_std_server": "there are no parameter servers; run t2t-trainer with --worker_hosts on each machine",
}
"""Unsupported values of Tensor2Tensor -> what to do instead."""


def check_schedule(values: flags.FlagValues) -> None:
    """Replaces a synonym in --schedule by our value; raises UserError for an unknown or unsupported schedule."""
    asked = values.schedule
    if asked in REFUSED:
        raise UserError(f"--schedule={asked}: not supported; {REFUSED[asked]}")
    values.schedule = SYNONYMS.get(asked, asked)
    if values.schedule not in SCHEDULES:
        raise UserError(
            f"--schedule={asked} does not exist; choose one of {', '.join(SCHEDULES)}, or of its synonyms "
            f"{', '.join(SYNONYMS)}"
        )
