"""Every model is exported to ONNX and LiteRT with the same outputs, or the export is refused (mask-predict)."""

import pytest

from benchmarks import parity
from t2t.registry import MODELS

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("name", MODELS.names())
def test_graphs_answer_as_the_model(name, capsys):
    assert parity.main([f"--models={name}", "--formats=onnx,litert", "--lines=5"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith(f"| `{name}`")]
    verdict = "no | no" if MODELS.get(name).mask_predicts else "yes | yes"
    assert [row for row in rows if not row.endswith(f"| {verdict} |")] == []
