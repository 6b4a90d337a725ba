"""Type checkers can follow an editable install, and the package is typed."""

import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.readme import ROOT


def test_an_editable_install_is_a_path_and_no_import_hook(tmp_path):
    """Type checkers read paths in `.pth` files, but do not run code in them."""
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "t2t", tmp_path / "t2t", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools import build_meta; print(build_meta.build_editable('wheels'))"
    done = subprocess.run([sys.executable, "-c", build], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file = done.stdout.splitlines()[-1]
    assert file.startswith("t2t_keras-")  # the name in messages about installation
    with zipfile.ZipFile(tmp_path / "wheels" / file) as wheel:
        outside = [name for name in wheel.namelist() if ".dist-info/" not in name]
        assert [name.rpartition(".")[2] for name in outside] == ["pth"]
        assert wheel.read(outside[0]).decode().strip() == str(tmp_path)
    assert (tmp_path / "t2t/py.typed").is_file()


USES = """import dataclasses

import t2t
from t2t.hparams.transformer import transformer_tiny

reveal_type(t2t.load)
reveal_type(t2t.load("run").translate(["a"]))
reveal_type(t2t.HParams)
t2t.load(5)


@t2t.register_problem
class MyProblem(t2t.Text2Text):
    pass


reveal_type(MyProblem())


@t2t.register_hparams
def my_set() -> t2t.HParams:
    return t2t.HParams()


reveal_type(my_set)


@dataclasses.dataclass(kw_only=True)
class MyHParams(t2t.HParams):
    width: float = t2t.param(1.0, "A width.")


hparams = MyHParams(width=2.0, batch_size=5).replace(hidden_size=3)
reveal_type(hparams.width)
reveal_type(transformer_tiny().num_heads)
hparams.widht
hparams.wdth = 2.0
MyHParams(batchsize=5)
"""
"""A plug-in and its user, with four mistakes."""
TYPES = (
    '-> t2t.inference.translator.Translator"',
    'Revealed type is "list[list[t2t.inference.hypothesis.Hypothesis]]"',
    '-> t2t.hparams.base.HParams"',
    'Argument 1 to "load" has incompatible type "int"',
    'Revealed type is "use.MyProblem"',
    'Revealed type is "def () -> t2t.hparams.base.HParams"',
    'Revealed type is "float"',
    'Revealed type is "int"',
    '"MyHParams" has no attribute "widht"; maybe "width"?',
    '"MyHParams" has no attribute "wdth"; maybe "width"?',
    'Unexpected keyword argument "batchsize" for "MyHParams"',
)
"""What mypy says of them."""


@pytest.mark.slow
def test_a_type_checker_sees_the_functions_and_short_imports(tmp_path):
    script = tmp_path / "use.py"
    script.write_text(USES)
    command = [sys.executable, "-m", "mypy", "--follow-imports=silent", f"--cache-dir={tmp_path}", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(ROOT)})
    found = done.stdout
    assert [text for text in TYPES if text not in found] == [], found + done.stderr
