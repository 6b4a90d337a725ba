"""Names and summaries read from source files agree with the loaded registry."""

import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from t2t.registry import HPARAMS, MODELS, PROBLEMS, read_registrations

CLASSICS = "t2t.models.classics"
KINDS = {registry.kind: (registry, packages) for registry, packages in (
    (PROBLEMS, ["t2t.problems"]), (MODELS, ["t2t.models", CLASSICS]), (HPARAMS, ["t2t.hparams", CLASSICS])
)}  # fmt: skip


def read(kind, packages):
    folders = [Path(importlib.import_module(package).__file__).parent for package in packages]
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    found = [entry for path in paths for entry in read_registrations(path, f"register_{kind}")]
    assert len({entry.name for entry in found}) == len(found)
    return {entry.name: entry for entry in found}


@pytest.mark.parametrize(("registry", "packages"), KINDS.values(), ids=KINDS.keys())
def test_the_source_says_what_the_registry_loads(registry, packages):
    names = [entry.name for entry in registry.entries() if not entry.alias_of]
    loaded = {name: registry.entry(name) for name in names}
    # Other tests of this process may have loaded plug-ins.
    loaded = {name: entry for name, entry in loaded.items() if entry.value.__module__.startswith("t2t.")}
    from_source = {name: entry for name, entry in read(registry.kind, packages).items() if not entry.alias_of}
    made_in_loops = {name for name, entry in loaded.items() if _is_made_in_a_loop(entry.value)}
    assert from_source.keys() == loaded.keys() - made_in_loops
    for name in made_in_loops:  # listing loads these packages, so that loops are no obstacle
        assert loaded[name].value.__module__.startswith(("t2t.problems.", "t2t.hparams."))
    for name, entry in from_source.items():
        assert entry.value is None
        assert entry.summary == loaded[name].summary
        assert entry.origin.rpartition(":")[0] == loaded[name].origin.rpartition(":")[0]
        # One has the line of the decorator, the other the line where Python runs it.
        first, last = _lines_of(loaded[name].value)
        assert first <= int(entry.origin.rpartition(":")[2]) <= last
        assert first <= int(loaded[name].origin.rpartition(":")[2]) <= last


def _is_made_in_a_loop(value):
    return not hasattr(sys.modules[value.__module__], value.__name__)


def _lines_of(value):
    lines, first = inspect.getsourcelines(value)
    return first, first + len(lines)


@pytest.mark.parametrize("registry", [registry for registry, _ in KINDS.values()], ids=KINDS.keys())
def test_every_registered_thing_has_a_summary_of_one_sentence(registry):
    for entry in registry.entries():
        assert entry.summary, entry.name
        assert len(entry.summary) <= 118, entry.name


def test_the_source_says_which_hparams_a_model_reads():
    """In a fresh process, since the source of an imported module is no longer parsed."""
    script = (
        "import json\nfrom t2t.registry import MODELS\n"
        "names = [entry.name for entry in MODELS.entries() if entry.value is None]\n"
        "print(json.dumps({name: MODELS.declared(name, 'hparams_class') for name in names}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=600)
    read = json.loads(done.stdout)
    assert read == {name: MODELS.get(name).hparams_class.__name__ for name in read} != {}
