"""Which runs can be distilled, according to their records."""

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.errors import UserError
from t2t.runs.run_checks import check_distillation
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec

TOKENS = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=9)
LABELS = FeatureSpec(kind=FeatureKind.LABEL, vocab_size=3)


@pytest.mark.parametrize(
    ("problem", "features", "message"),
    [
        ("classify_files", {"inputs": TOKENS, "targets": LABELS}, "classify_files: its targets are label; distil a "),
        ("languagemodel_files", {"targets": TOKENS}, "languagemodel_files: it has no inputs to decode; distil a "),
        (
            "tiny_algo_rev",
            {"inputs": TOKENS, "targets": TOKENS},
            "tiny_algo_rev: it reads the data of tiny_algo with other sides; distil a run of tiny_algo itself",
        ),
    ],
)
def test_what_cannot_be_distilled_is_said(problem, features, message, tmp_path):
    spec = ProblemSpec(name=problem, features=features)
    record = RunRecord(problem=problem, model="transformer", hparams_set="transformer_tiny", hparams={}, spec=spec)
    with pytest.raises(UserError, match=f"^distilling {message}"):
        check_distillation(RunDir(tmp_path, record), problem, str(tmp_path), str(tmp_path / "new"))
