"""Opening a run with aliases of the names that it was trained with."""

import pytest

from t2t.registry import PROBLEMS
from t2t.runs.run_checks import open_run
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from tests.errors import refused
from tests.many_runs import create_run

PLUGIN = """
from t2t.problems.algorithmic import Reverse
from t2t.registry import HPARAMS, PROBLEMS, register_problem

register_problem("plugin_reverse")(Reverse)
PROBLEMS.alias("plugin_other_name", "plugin_reverse")
HPARAMS.alias("plugin_tiny", "transformer_tiny")
"""


@pytest.fixture
def usr_dir(tmp_path):
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text(PLUGIN)
    return str(folder)


@pytest.fixture
def run(tmp_path):
    tokens = FeatureSpec(kind=FeatureKind.TOKENS, vocab_size=5)
    spec = ProblemSpec(name="plugin_reverse", features={"targets": tokens})
    return str(create_run(tmp_path / "run", "plugin_reverse_rev", spec).path)


def test_another_name_that_a_plugin_gives_is_known_and_what_it_means_otherwise_refused(run, usr_dir):
    opened = open_run(run, "plugin_other_name_rev", "transformer", "plugin_tiny", usr_dir)
    assert str(opened.path) == run
    assert PROBLEMS.canonical("plugin_other_name") == "plugin_reverse"
    with refused(run, "--problem=plugin_other_name", "plugin_reverse_rev"):
        open_run(run, "plugin_other_name", "transformer", "plugin_tiny", usr_dir)


def test_no_plugin_is_loaded_for_the_names_of_the_run_or_for_none_and_without_it_its_names_are_not_known(run, usr_dir):
    for names in ((), ("plugin_reverse_rev", "transformer", "transformer_tiny")):
        open_run(run, *names, t2t_usr_dir=usr_dir)
    assert "plugin_reverse" not in PROBLEMS
    with refused("--problem=plugin_other_name_rev", "plugin_reverse_rev"):
        open_run(run, "plugin_other_name_rev")
