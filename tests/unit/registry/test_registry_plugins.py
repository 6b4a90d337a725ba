import dataclasses
import importlib
import json
import os
import re
import sys

import pytest

from t2t.registry import HPARAMS, METRICS, MODELS, REGISTRIES
from t2t.registry.plugins import Plugin, load_plugins
from tests.errors import refused
from tests.registrations import forgotten

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
def _as_before():
    """After each test, removes the registrations and modules of its plug-ins."""
    with forgotten(*REGISTRIES):
        yield
    for module in [module for module in sys.modules if module.partition(".")[0] == "my_plugin"]:
        del sys.modules[module]


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
def load(usr_dir):
    """Returns a function that loads a plug-in folder of these files, and returns the plug-in."""
    return lambda **sources: load_plugins(str(usr_dir(**sources)))[0]


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


def test_a_folder_registers_what_its_modules_do(load):
    plugin = load(__init__="from . import sets", sets=SET.format(name="my_very_own_hparams"))
    assert (plugin.name, plugin.kind) == ("my_plugin", "usr_dir")
    assert plugin.registered == ("hparams:my_very_own_hparams",)
    assert re.fullmatch(r"[0-9a-f]{64}", plugin.fingerprint)
    assert HPARAMS.get("my_very_own_hparams")().hidden_size == 64
    assert HPARAMS.entry("my_very_own_hparams").summary == "A set of one's own."
    assert json.loads(json.dumps(dataclasses.asdict(plugin)))["registered"] == ["hparams:my_very_own_hparams"]


def test_loading_again_gives_the_same_answer(usr_dir, install):
    assert load_plugins() == load_plugins("") == []
    install("packaged", SET.format(name="packaged_set"))
    folder = usr_dir(__init__=SET.format(name="loaded_twice"))
    first = load_plugins(str(folder))
    assert [plugin.registered for plugin in first] == [("hparams:packaged_set",), ("hparams:loaded_twice",)]
    assert load_plugins(str(folder)) == first


def test_a_plugin_is_loaded_though_an_earlier_run_has_closed_the_registries(load):
    for registry in REGISTRIES:
        registry.freeze()
    try:
        plugin = load(__init__=SET.format(name="late_but_asked_for"))
        with refused("'later'"):
            HPARAMS.register("later")(object)
    finally:
        for registry in REGISTRIES:
            registry.thaw()
    assert plugin.registered == ("hparams:late_but_asked_for",)


def test_a_plug_in_is_a_folder_with_an_init(usr_dir, tmp_path, monkeypatch):
    folder = usr_dir(sets="")
    for path, missing in ((tmp_path / "gone", []), (folder / "sets.py", []), (folder, ["__init__.py"])):
        with refused(f"--t2t_usr_dir={path}:", *missing):
            load_plugins(str(path))
    (usr_dir(__init__="") / "notes.py").mkdir()  # a folder named as a source is no source
    (usr_dir() / "notes.py" / "inner.py").write_text("x = 1")
    assert load_plugins(str(usr_dir()))[0].registered == ()
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load_plugins("~/my_plugin")[0].name == "my_plugin"


@pytest.mark.parametrize(("source", "about"), [
    ("import no_such_library", ["sets.py:1:", "ModuleNotFoundError:", "'no_such_library'"]),
    ("from my_plugin.gone import x", ["sets.py:1:", "ModuleNotFoundError:", "'my_plugin.gone';"]),
    ("def f(:\n  pass", ["SyntaxError:"]),
    ("x = 1\nraise RuntimeError('two\\nlines')", ["sets.py:2:", "RuntimeError:"]),
])  # fmt: skip
def test_a_broken_folder_says_where_and_can_be_fixed(usr_dir, source, about):
    folder = usr_dir(__init__="from . import sets", sets=source)
    with refused(f"--t2t_usr_dir={folder}", *about) as raised:
        load_plugins(str(folder))
    assert raised.value.__cause__ is not None
    (folder / "sets.py").write_text(SET.format(name="fixed_set"))
    assert load_plugins(str(folder))[0].registered == ("hparams:fixed_set",)


@pytest.mark.parametrize(("kind", "thing", "about"), [
    ("model", "class Transformer: pass", ["'transformer'", "t2t/models/transformer.py:"]),
    ("metric", "def bleu(hypotheses, references): pass", ["'bleu'", "t2t/metrics/text.py:"]),
])  # fmt: skip
def test_a_folder_that_takes_a_built_ins_name_names_both_places(usr_dir, kind, thing, about):
    folder = usr_dir(__init__=f"from t2t.registry import register_{kind}\n@register_{kind}\n{thing}\n")
    with refused(kind, *about, f"{folder}/__init__.py:2"):
        load_plugins(str(folder))


# === Models ===
MODEL = """
{top}
from t2t.hparams.base import HParams
from t2t.registry import register_hparams, register_model

class MyHParams(HParams):
    pass

@register_hparams
def my_set():
    \"\"\"Half of it.\"\"\"
    return MyHParams()

{middle}
from my_plugin import base as keras
WIDTH: int = 3
"""
NETWORK = """
@register_model(aliases=["my_alias"])
class MyModel(keras.SequenceModel):
    \"\"\"The rest.\"\"\"
    hparams_class, width = MyHParams, WIDTH
"""
BASE = "class SequenceModel:\n    __module__ = 't2t.models.base'\n"
"""The registry looks at the name of a model's base class alone."""


def model_file(top="", middle="", network=NETWORK):
    return MODEL.format(top=top, middle=middle) + network


def imported_base():
    """Returns the module of the base class; None if it is not imported."""
    return sys.modules.get(HPARAMS.get("my_set").__module__.replace(".model", ".base"))


def test_a_network_below_the_sets_of_its_file_runs_when_it_is_used(load):
    plugin = load(__init__="from . import model", model=model_file("from __future__ import annotations"), base=BASE)
    assert plugin.registered == ("hparams:my_set", "model:my_alias", "model:my_model")
    module = sys.modules[HPARAMS.get("my_set").__module__]
    assert MODELS.entries("my_model")[0].summary == "The rest."
    with refused("'nothing'", by=AttributeError):
        module.nothing  # noqa: B018
    assert {"MyHParams", "MyModel", "WIDTH"} <= {*dir(module)}
    assert not imported_base()
    assert MODELS.get("my_alias") is module.MyModel is MODELS.get("my_model")
    assert imported_base()
    assert (module.MyModel.width, module.__annotations__) == (3, {"WIDTH": "int"})
    with refused("'nothing'", by=AttributeError):
        module.nothing  # noqa: B018


def test_a_network_runs_when_another_module_imports_it(load):
    load(__init__="from . import model\nfrom .model import MyModel", model=model_file(), base=BASE)
    assert imported_base()


def test_a_network_that_fails_can_be_run_again(load):
    load(__init__="from . import model", model=model_file(network=NETWORK + "LATE = keras.late"), base=BASE)
    for _ in range(2):
        with refused("'late'", by=AttributeError):
            MODELS.get("my_model")
    imported_base().late = 5
    assert sys.modules[MODELS.get("my_model").__module__].LATE == 5


@pytest.mark.parametrize("changed", [
    {"top": "from my_plugin import base"},  # imports are at the top, as usual
    {"network": NETWORK + "\nfor name in ('a', 'b'):\n    register_hparams(f'my_{name}')(my_set)\n"},
    {"network": ""},
])  # fmt: skip
def test_other_files_run_at_once(load, changed):
    load(__init__="from . import model", model=model_file(**changed), base=BASE)
    assert imported_base()


# === Loading again ===
NUMBERED = SET.format(name="numbered").replace("64", "{}")


def size_of(folder):
    """Loads a folder and returns the hidden size of its set `numbered`."""
    load_plugins(str(folder))
    return HPARAMS.get("numbered")().hidden_size


@pytest.mark.parametrize("module", ["__init__", "sets"])
def test_a_folder_that_was_edited_is_loaded_again(usr_dir, module):
    folder = usr_dir(**{"__init__": "from . import sets", "sets": "", module: NUMBERED.format(16)})
    (first,) = load_plugins(str(folder))
    file = folder / f"{module}.py"
    edited = file.stat().st_mtime_ns
    usr_dir(**{module: NUMBERED.format(32)})
    os.utime(file, ns=(edited, edited))  # within one tick of the clock, as a notebook may do it
    (second,) = load_plugins(str(folder))
    assert HPARAMS.get("numbered")().hidden_size == 32
    assert second.registered == first.registered == ("hparams:numbered",)
    assert first.fingerprint != second.fingerprint
    usr_dir(**{module: NUMBERED.format(16)})
    assert load_plugins(str(folder)) == [first]
    assert size_of(folder) == 16


def test_what_an_edited_folder_no_longer_registers_is_gone_also_where_the_edit_breaks_it(load):
    old, kept, new = (SET.format(name=f"{name}_name") for name in ("old", "kept", "new"))
    load(__init__=old + kept)
    assert load(__init__=kept + new).registered == ("hparams:kept_name", "hparams:new_name")
    assert "old_name" not in HPARAMS
    with refused("ZeroDivisionError:"):
        load(__init__=f"{new}{old}\n1 / 0")
    assert not {"old_name", "kept_name", "new_name"} & {*HPARAMS.names()}
    assert load(__init__=old).registered == ("hparams:old_name",)
    changes = ({"__init__": "x = 1"}, {"other": "y = 1"}, {"other": "y = 2"}, {"new": "y = 2"})
    assert len({load(**changed).fingerprint for changed in changes}) == 4, "any source that changes changes it"


# === Its own modules ===
@pytest.mark.parametrize("line", [
    "from my_plugin.sets import x", "import my_plugin.sets", "from my_plugin import sets", "from . import sets",
])  # fmt: skip
def test_modules_of_the_folder_may_be_imported_by_its_name(usr_dir, line):
    folder = usr_dir(__init__=f"{line}\nfrom . import sets\n", sets=f"x = 1\n{NUMBERED.format(16)}")
    path = list(sys.path)
    (plugin,) = load_plugins(str(folder))
    assert plugin.registered == ("hparams:numbered",), "each module ran once"
    assert sys.path == path
    usr_dir(sets=f"x = 1\n{NUMBERED.format(32)}")
    assert size_of(folder) == 32


def test_an_import_within_a_function_of_the_folder_finds_its_modules(load):
    late = f"def late():\n    from my_plugin.words import WORDS\n    return WORDS\n{SET.format(name='late_set')}"
    load(__init__=late, words="WORDS = ['a']")
    assert HPARAMS.get("late_set").__globals__["late"]() == ["a"]


@pytest.mark.parametrize(
    "line", ["from plug.words import N", "import plug.words; N = plug.words.N", "import plug.words as w; N = w.N",
             "from plug import words; N = words.N", "import plug; N = plug.words.N"],
)  # fmt: skip
def test_two_folders_of_one_name_keep_their_own_modules_also_in_late_imports(tmp_path, line):
    sizes = {"one": 16, "other": 32}
    late = f"def late():\n    {line}\n    return N\n"
    for name, size in sizes.items():
        folder = tmp_path / name / "plug"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("from plug import sets, words")
        (folder / "words.py").write_text(f"N = {size}")
        (folder / "sets.py").write_text(f"{late}{NUMBERED.replace('numbered', name).format(size)}")
        load_plugins(str(folder))
        elsewhere = importlib.import_module("plug.words")
        assert size == elsewhere.N, "the last folder of the name"
    assert {name: HPARAMS.get(name)().hidden_size for name in sizes} == sizes
    assert {name: HPARAMS.get(name).__globals__["late"]() for name in sizes} == sizes


def test_the_folder_above_may_be_searched_too(usr_dir, monkeypatch):
    folder = usr_dir(__init__="from my_plugin import sets", sets=NUMBERED.format(16))
    monkeypatch.syspath_prepend(str(folder.parent))  # as a notebook next to the folder has it
    assert size_of(folder) == 16
    assert importlib.import_module("my_plugin.sets").numbered is HPARAMS.get("numbered")


def test_a_package_that_is_installed_later_keeps_its_name(load, tmp_path, monkeypatch):
    load(__init__="x = 'of the folder'")
    (tmp_path / "site" / "my_plugin").mkdir(parents=True)
    (tmp_path / "site" / "my_plugin" / "__init__.py").write_text("x = 'of the package'")
    (tmp_path / "site" / "my_plugin" / "sub.py").write_text("y = 'of the package'")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for module in ("my_plugin.sub", "my_plugin"):
        assert "of the package" in vars(importlib.import_module(module)).values()


def test_a_folder_with_the_name_of_another_module_takes_nothing_from_it(tmp_path):
    folder = tmp_path / "json"
    folder.mkdir()
    (folder / "__init__.py").write_text("from json.sets import x")
    (folder / "sets.py").write_text("x = 1")
    with refused("json", ".sets"):
        load_plugins(str(folder))
    assert importlib.import_module("json") is json
    (folder / "__init__.py").write_text("from .sets import x")
    assert load_plugins(str(folder))[0].name == "json"


@pytest.mark.parametrize(
    ("line", "value"),
    [("import helper_of_mine", "helper_of_mine.x"), ("from helper_of_mine import x", "x")],
)
def test_a_module_beside_the_init_is_imported_from_the_folder(usr_dir, line, value):
    folder = usr_dir(__init__=f"{line}\nassert {value} == 1", helper_of_mine="x = 1")
    assert load_plugins(str(folder))[0].name == "my_plugin"
    assert "helper_of_mine" not in sys.modules


# === Failure ===
EVERYTHING = f"""
{SET.format(name="half_a_set")}
from t2t import Text2Text
from t2t.registry import register_metric, register_problem, register_ranged_hparams

@register_metric("half_a_metric")
@register_ranged_hparams(name="half_a_range")
def half(first, second=None):
    pass

@register_problem
class HalfAProblem(Text2Text):
    def generate_samples(self, split, context):
        return []
"""


@pytest.mark.parametrize("way", ["folder", "installed"])
def test_a_plugin_that_fails_leaves_nothing_registered_and_can_be_fixed(usr_dir, install, way):
    folder = usr_dir(__init__="from . import everything, last", everything=EVERYTHING, last="1 / 0")
    if way == "installed":
        install("whole", "", module="my_plugin")
        (folder.parent / "my_plugin.py").unlink()
    usr_dir_flag = str(folder) if way == "folder" else None
    names = [registry.names() for registry in REGISTRIES]
    with refused("ZeroDivisionError:"):
        load_plugins(usr_dir_flag)
    assert [registry.names() for registry in REGISTRIES] == names
    usr_dir(last="x = 1  # of another size: Python tells files apart by that and the second")
    importlib.invalidate_caches()
    (plugin,) = load_plugins(usr_dir_flag)
    assert plugin.registered == (
        "hparams:half_a_set", "hparams_range:half_a_range", "metric:half_a_metric", "problem:half_a_problem",
    )  # fmt: skip
    assert "half_a_metric" in METRICS


def test_a_folder_that_fails_takes_no_installed_plugin_with_it(load, install):
    install("well", SET.format(name="of_the_installed"))
    with refused("ZeroDivisionError:"):
        load(__init__="1 / 0")
    assert load_plugins()[0].registered == ("hparams:of_the_installed",)
    assert "of_the_installed" in HPARAMS


# === Installed ===
def test_installed_plugins_are_loaded_by_entry_point_and_a_broken_one_is_named(install):
    install("two_sets", SET.format(name="installed_b") + SET.format(name="installed_a"), version="3.4")
    install("another", "")
    another, two_sets = load_plugins()
    assert another == Plugin("another", "installed", "1.2", ())
    assert two_sets == Plugin("two_sets", "installed", "3.4", ("hparams:installed_a", "hparams:installed_b"))
    assert HPARAMS.get("installed_a")().hidden_size == 64
    install("wrong", "1 / 0")
    with refused("'wrong'", "(module_of_wrong)", "module_of_wrong.py:1:", "ZeroDivisionError:"):
        load_plugins()
