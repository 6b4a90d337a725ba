import contextlib
import json
import re

import pytest

from t2t.errors import UserError
from t2t.plugins import Plugin, load_plugins
from t2t.registry import HPARAMS, MODELS, PROBLEMS

SET = """
from t2t.hparams.transformer import transformer_tiny
from t2t.registry import register_hparams

@register_hparams
def {name}():
    \"\"\"A set of one's own.\"\"\"
    hparams = transformer_tiny()
    hparams.hidden_size = 64
    return hparams
"""


@pytest.fixture(autouse=True)
def _registries_as_before():
    """Forgets at the end of a test what its plug-ins have registered."""
    with contextlib.ExitStack() as stack:
        for registry in (PROBLEMS, MODELS, HPARAMS):
            stack.enter_context(registry.temporarily("only_for_this_test", object()))
        yield


@pytest.fixture
def usr_dir(tmp_path):
    """Returns a maker of plug-in folders from file names and sources."""

    def make(**sources):
        folder = tmp_path / "my_plugin"
        folder.mkdir(exist_ok=True)
        for name, source in sources.items():
            (folder / f"{name}.py").write_text(source)
        return folder

    return make


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Returns a function that puts a distribution with an entry point where Python looks for installed ones."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name, source, version="1.2", module=None):
        module = module or f"module_of_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[t2t.plugins]\n{name} = {module}\n")

    return make


def test_without_plugins_there_are_none():
    assert load_plugins() == []
    assert load_plugins("") == []


def test_a_folder_registers_what_its_modules_do(usr_dir):
    folder = usr_dir(__init__="from . import sets", sets=SET.format(name="my_very_own_hparams"))
    (plugin,) = load_plugins(str(folder))
    assert (plugin.name, plugin.kind) == ("my_plugin", "usr_dir")
    assert plugin.registered == ("hparams:my_very_own_hparams",)
    assert re.fullmatch(r"[0-9a-f]{64}", plugin.fingerprint)
    assert HPARAMS.get("my_very_own_hparams")().hidden_size == 64
    assert HPARAMS.entry("my_very_own_hparams").summary == "A set of one's own."
    assert json.loads(json.dumps(plugin.to_dict()))["registered"] == ["hparams:my_very_own_hparams"]


def test_loading_again_gives_the_same_answer(usr_dir, install):
    install("packaged", SET.format(name="packaged_set"))
    folder = usr_dir(__init__=SET.format(name="loaded_twice"))
    first = load_plugins(str(folder))
    assert [plugin.registered for plugin in first] == [("hparams:packaged_set",), ("hparams:loaded_twice",)]
    assert load_plugins(str(folder)) == first


def test_the_fingerprint_is_that_of_all_sources(usr_dir):
    folder = usr_dir(__init__="x = 1", other="y = 1")
    (first,) = load_plugins(str(folder))
    (folder / "other.py").write_text("y = 2")
    (second,) = load_plugins(str(folder))
    assert first.fingerprint != second.fingerprint


def test_a_plugin_is_loaded_though_an_earlier_run_has_closed_the_registries(usr_dir):
    for registry in (PROBLEMS, MODELS, HPARAMS):
        registry._frozen = True
    try:
        (plugin,) = load_plugins(str(usr_dir(__init__=SET.format(name="late_but_asked_for"))))
    finally:
        for registry in (PROBLEMS, MODELS, HPARAMS):
            assert registry._frozen
            registry._frozen = False
    assert plugin.registered == ("hparams:late_but_asked_for",)


def test_a_tilde_is_the_home_folder(usr_dir, monkeypatch):
    folder = usr_dir(__init__="")
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load_plugins("~/my_plugin")[0].name == "my_plugin"


def test_no_folder(tmp_path):
    with pytest.raises(UserError, match=r"--t2t_usr_dir=.*gone: no such folder; give the folder that holds your"):
        load_plugins(str(tmp_path / "gone"))


def test_a_file_is_no_folder(usr_dir):
    with pytest.raises(UserError, match=r"__init__.py: no such folder"):
        load_plugins(str(usr_dir(__init__="") / "__init__.py"))


def test_a_folder_without_init(usr_dir):
    with pytest.raises(UserError, match=r"--t2t_usr_dir=.*my_plugin: no __init__.py in it; add one that imports the"):
        load_plugins(str(usr_dir(sets="")))


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("import no_such_library", r"ModuleNotFoundError: No module named 'no_such_library'"),
        ("def f(:\n  pass", r"SyntaxError: .*"),
        ("x = 1\nraise RuntimeError('two\\nlines')", r"RuntimeError: two lines"),
    ],
)
def test_a_broken_folder_says_where_and_can_be_mended(usr_dir, source, complaint):
    folder = usr_dir(__init__="from . import sets", sets=source)
    with pytest.raises(UserError) as error:
        load_plugins(str(folder))
    where = "" if "SyntaxError" in complaint else rf"{re.escape(str(folder))}/sets\.py:{source.count(chr(10)) + 1}"
    pattern = (
        rf"plug-in --t2t_usr_dir={re.escape(str(folder))} failed to import at {where}.*: {complaint}; mend it or .*"
    )
    assert re.fullmatch(pattern, str(error.value))
    assert error.value.__cause__ is not None
    (folder / "sets.py").write_text(SET.format(name="mended_set"))
    assert load_plugins(str(folder))[0].registered == ("hparams:mended_set",)


def test_a_folder_that_takes_a_built_ins_name_names_both_places(usr_dir):
    model = "from t2t.registry import register_model\n@register_model\nclass Transformer:\n    pass\n"
    with pytest.raises(
        UserError, match=r"model 'transformer' is registered twice: .*t2t/models/transformer.py:\d+ and "
    ):
        load_plugins(str(usr_dir(__init__=model)))


def test_installed_plugins_are_loaded_by_entry_point(install):
    install("two_sets", SET.format(name="installed_b") + SET.format(name="installed_a"), version="3.4")
    install("another", "")
    another, two_sets = load_plugins()
    assert another == Plugin("another", "installed", "1.2", ())
    assert two_sets == Plugin("two_sets", "installed", "3.4", ("hparams:installed_a", "hparams:installed_b"))
    assert HPARAMS.get("installed_a")().hidden_size == 64


def test_a_broken_installed_plugin_is_named_and_not_left_out(install):
    install("wrong", "1 / 0")
    with pytest.raises(UserError) as error:
        load_plugins()
    assert re.fullmatch(
        r"installed plug-in 'wrong' \(module_of_wrong\) failed to import at .*module_of_wrong\.py:1: "
        r"ZeroDivisionError: division by zero; mend it or leave it out",
        str(error.value),
    )


def test_the_example_is_a_working_plugin(request):
    (plugin,) = load_plugins(str(request.config.rootpath / "examples" / "usr_dir"))
    assert {entry.partition(":")[0] for entry in plugin.registered} == {"problem", "model", "hparams"}
