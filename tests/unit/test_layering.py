"""The layers of docs/architecture.md ("floors"), checked for every import in the code, also inside functions."""

import ast
import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_MAY_BE_USED = (0, 2, 8)
"""Floors on which parts may import parts to their left."""
EXEMPT = "t2t"
"""`t2t/__init__.py`: the version, which anyone may read, and the functions of `t2t.runs`."""


@dataclasses.dataclass(frozen=True)
class Place:
    """Position of a part of the package: floor, index on it from the left, allowed libraries."""

    floor: int
    order: int
    libraries: frozenset


def read_table(text):
    """Returns part -> Place from the rows `| 0 names | `constants` ... | libraries |`."""
    places = {}
    for floor, parts, libraries in re.findall(r"^\| (\d) \w+ \| ([^|]*) \| ([^|]*)\|$", text, re.M):
        for order, part in enumerate(re.findall(r"`(\w+)`", parts)):
            assert part not in places, f"{part} is in the table twice"
            places[part] = Place(int(floor), order, frozenset(libraries.split()))
    return places


def imports(source):
    """Yields (line, dotted name) of all imports of a module, also inside functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides which floor it leads to"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def part_of(module):
    """`t2t.text.byte` -> `text`; "" for the package itself."""
    return module.partition(".")[2].partition(".")[0]


def violations(modules, places):
    """Returns a line for each import that the table forbids.

    Args:
        modules: dotted name -> source.
        places: part -> Place.
    """
    found = []
    for module, source in modules.items():
        if module == EXEMPT:
            continue
        here = places[part_of(module)]
        for line, name in imports(source):
            where = f"{module}:{line} imports {name}"
            top = name.split(".")[0]
            if "keras.src" in name:
                found.append(f"{where}, which is not public")
            elif top == "t2t":
                target = part_of(name)
                if target and target not in places and target != "__version__":
                    found.append(f"{where}, which leads to floor 8")
                elif target in places and target != part_of(module) and not may_use(here, places[target]):
                    found.append(f"{where}: floor {here.floor} may not use floor {places[target].floor}")
            elif top not in sys.stdlib_module_names and top not in here.libraries:
                found.append(f"{where}, a library that floor {here.floor} does not use")
    return found


def may_use(here, there):
    if here.floor == there.floor:
        return here.floor in LEFT_MAY_BE_USED and there.order < here.order
    return there.floor < here.floor


def cycle(modules):
    """Returns modules that import each other in a circle, or an empty list."""
    graph = {
        module: {name if name in modules else name.rpartition(".")[0] for _, name in imports(source)} & set(modules)
        for module, source in modules.items()
        if module != EXEMPT
    }
    done, path = set(), []

    def visit(module):
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done or module not in graph:
            return []
        path.append(module)
        for target in sorted(graph[module] - {module}):
            if found := visit(target):
                return found
        path.pop()
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := visit(module))), [])


@pytest.fixture(scope="module")
def places():
    return read_table((ROOT / "docs/architecture.md").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def modules():
    found = {}
    for path in sorted((ROOT / "t2t").rglob("*.py")):
        dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[dotted.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def test_no_import_leads_upwards_sideways_or_to_another_library(modules, places):
    assert violations(modules, places) == []


def test_no_modules_import_each_other_in_a_circle(modules):
    assert cycle(modules) == []


def test_everything_in_the_package_has_a_floor(modules, places):
    assert {part_of(module) for module in modules if module != EXEMPT} == set(places)
    assert {place.floor for place in places.values()} == set(range(9))


def test_the_picture_shows_every_room(places):
    picture = (ROOT / "docs/images/floors.svg").read_text(encoding="utf-8")
    assert set(re.findall(r'class="name"[^>]*>(\w+)<', picture)) == set(places), "draw it: python docs/draw_floors.py"


def test_tensorflow_begins_at_floor_six_and_keras_at_floor_four(places):
    assert {place.floor for place in places.values() if "tensorflow" in place.libraries} == {6, 8}
    assert min(place.floor for place in places.values() if "keras" in place.libraries) == 4


def test_models_layers_and_search_use_keras_alone(modules):
    """They must not use `keras.backend`, whose functions differ between backends."""
    for module, source in modules.items():
        if module == EXEMPT or part_of(module) not in ("layers", "models", "search"):
            continue
        libraries = {name.split(".")[0] for _, name in imports(source)} - set(sys.stdlib_module_names) - {"t2t"}
        assert libraries <= {"keras", "numpy"}, module
        used = {node.attr for node in ast.walk(ast.parse(source)) if _is_of_keras(node)}
        assert not used & {"src", "backend", "_tf_keras"}, module


def _is_of_keras(node):
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "keras"


@pytest.mark.parametrize(
    ("module", "source", "line", "imported", "why"),
    [
        ("t2t.text.bad", "from t2t.problems.base import Problem", 1, "t2t.problems.base.Problem", "floor 2"),
        (
            "t2t.text.bad",
            "def f():\n    import t2t.data.generation.generate",
            2,
            "t2t.data.generation.generate",
            "floor 3",
        ),
        ("t2t.models.bad", "from t2t.search import step", 1, "t2t.search.step", "floor 5"),
        ("t2t.errors", "from t2t import files", 1, "t2t.files", "floor 0"),
        ("t2t.layers.bad", "class A:\n  def f(self):\n    import tensorflow as tf", 3, "tensorflow", "library"),
        ("t2t.layers.bad", "from keras.src import backend", 1, "keras.src.backend", "not public"),
        ("t2t.errors", "import numpy", 1, "numpy", "library"),
        ("t2t.hparams.bad", "if TYPE_CHECKING:\n    from t2t.models.base import M", 2, "t2t.models.base.M", "floor 5"),
        ("t2t.training.bad", "import tensorflow as tf", 1, "tensorflow", "library"),
        ("t2t.training.bad", "from t2t import load", 1, "t2t.load", "floor 8"),
    ],
)
def test_the_checker_finds_what_is_wrong(places, module, source, line, imported, why):
    (complaint,) = violations({module: source}, places)
    assert complaint.startswith(f"{module}:{line} imports {imported}")
    assert why in complaint


def test_the_checker_lets_pass_what_is_right(places):
    right = {
        "t2t.text.good": "from t2t.text.encoder import TextEncoder\nfrom t2t.errors import UserError\nimport json",
        "t2t.layers.good": "from t2t.layers.losses import token_weights",
        "t2t.registry": "from t2t.errors import UserError",
        "t2t.inference": "import t2t",
        "t2t": "from t2t.runs.loading import load",
    }
    assert violations(right, places) == []


def test_the_checker_finds_circles():
    circle = {"t2t.text.a": "from t2t.text import b", "t2t.text.b": "def f():\n  from t2t.text.a import g"}
    assert cycle(circle) == ["t2t.text.a", "t2t.text.b", "t2t.text.a"]
    assert cycle({"t2t.text.a": "from t2t.text import b", "t2t.text.b": "import json"}) == []


def test_names_and_hparams_of_all_models_load_neither_tensorflow_nor_keras():
    found = run_python(
        "from t2t.registry.plugins import load_plugins; load_plugins('examples/usr_dir')\n"
        "from t2t.runs.listing import registry_listing; text = registry_listing() + registry_listing('hparams')\n"
        "import sys; print(*sorted({'tensorflow', 'keras'} & set(sys.modules))); print(text)"
    )
    loaded, _, listing = found.partition("\n")
    assert loaded == ""
    for line in ("transformer_base ", "translate_ende_numbers ", "byte_net ", "my_bag_of_words ", "unfolding_factor="):
        assert f"  {line}" in listing


def test_the_lower_floors_work_without_tensorflow(modules, places):
    low = [module for module in modules if module != EXEMPT and places[part_of(module)].floor <= 3]
    assert len(low) > 30
    assert run_python(
        f"import importlib, sys; [importlib.import_module(name) for name in {low!r}]; "
        "print(*sorted({'tensorflow', 'keras', 'tensorflow_datasets'} & set(sys.modules)))"
    ) == "\n"  # fmt: skip


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
