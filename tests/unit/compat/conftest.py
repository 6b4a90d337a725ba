import numpy as np
import pytest

from t2t.registry.plugins import load_plugins
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.runs.names import get_problem
from tests.unit.compat.plugins import HEAD


@pytest.fixture
def load(tmp_path):
    """Returns a function that loads a plug-in of one file."""

    def load(body, **more):
        folder = tmp_path / "their_plugin"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").write_text("from . import problems\n")
        (folder / "problems.py").write_text(HEAD + body)
        for name, source in more.items():
            (folder / f"{name}.py").write_text(source)
        return load_plugins(str(folder))[-1]

    return load


@pytest.fixture
def texts(tmp_path):
    """Returns the examples of generated data: split -> list of (inputs, targets), as texts where they are of ids."""

    def read(name):
        problem = get_problem(name)
        data = open_data(RunConfig(problem=name, data_dir=str(tmp_path / "data")), problem, verify=False)
        encoders = data.problem.encoders
        found = {}
        for split, reader in data.readers.items():
            every = np.arange(len(reader))
            sides = []
            for feature in data.problem.spec().features:
                if reader.is_sequence(feature):
                    values, lengths = reader.read(every, feature)
                    rows = np.split(values, np.cumsum(lengths)[:-1])
                else:
                    rows = reader.single(every, feature)
                sides.append([encoders[feature].decode(row) for row in rows] if feature in encoders else list(rows))
            found[split] = list(zip(*sides, strict=True))
        return found

    return read
