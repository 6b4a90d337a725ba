"""docs/weights.md: its code, which needs only numpy and safetensors, gives the library's probabilities."""

import shutil

import pytest

import t2t
from tests.readme import ROOT, block, execute


def test_the_code_of_the_page_computes_the_model_without_the_library(tiny_run, tmp_path):
    shutil.copytree(tiny_run.output_dir, tmp_path / "run")
    code = "import sys\nsys.modules['t2t'] = sys.modules['tensorflow'] = None\n"
    done = execute("python", code + block("weights", page=ROOT / "docs/weights.md"), tmp_path, is_warm=False)
    assert done.returncode == 0, done.stderr
    translator = t2t.load(str(tiny_run.output_dir))
    assert float(done.stdout) == pytest.approx(translator.score_ids([[3, 4, 5]], [[5, 4, 3]])[0], abs=1e-4)
