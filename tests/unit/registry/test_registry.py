import re
import sys

import pytest

from t2t.errors import UnknownNameError
from t2t.registry import PROBLEMS, RegistrationError, Registry, read_registrations, snake_case
from tests.errors import refused

PACKAGES = iter(range(1_000_000))
SLOW = '''
@register_thing
class SliceNet:
    """Slices."""

@register_thing("by_name")
def build():
    """Builds."""

class Helper:
    """Not registered."""
'''


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Returns a maker of registries whose built-ins are modules of these sources."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def build(modules=None, **options):
        package = f"built_ins_{next(PACKAGES)}"
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
        registry = Registry("thing", package, **options)
        (tmp_path / package / "_made.py").write_text("")
        for name, source in (modules or {}).items():
            (tmp_path / package / f"{name}.py").write_text(f"from {package} import register_thing\n{source}")
        __import__(package).register_thing = registry.register
        return registry

    return build


def test_the_decorator_works_bare_and_with_a_name(make):
    registry = make()

    @registry.register
    class SliceNet:
        """Slices.

        More of it.
        """

    @registry.register("other_name")
    def function():
        """Does it."""

    registry.register()(type("BareCall", (), {}))
    registry.register(name="by_keyword")(type("Keyword", (), {}))
    assert registry.names() == ["bare_call", "by_keyword", "other_name", "slice_net"]
    assert registry.get("slice_net") is SliceNet
    assert registry.get("other_name") is function
    assert [entry.summary for entry in registry.entries()] == ["", "", "Does it.", "Slices."]
    assert "slice_net" in registry
    assert "SliceNet" not in registry
    file, _, line = registry.entry("slice_net").origin.rpartition(":")
    assert file == __file__
    assert int(line) > 1


def test_entries_can_be_narrowed_and_an_unknown_name_answers_with_the_nearest_and_what_to_do(make):
    registry = make()
    for name in ("transformer", "transformer_big", "lstm"):
        registry.register(name)(object())
    assert [entry.name for entry in registry.entries("transformer")] == ["transformer", "transformer_big"]
    assert registry.entries("zzz") == []
    for name, nearest in (("transfomer", ["transformer", "transformer_big?"]), ("Lstm", ["lstm?"])):
        with refused("thing", f"'{name}'", *nearest, "--registry_help;", "--t2t_usr_dir", by=UnknownNameError):
            registry.get(name)


def test_a_name_taken_twice_names_both_places_and_the_same_object_is_taken_again(make):
    registry = make()
    value = registry.register("net")(object())
    registry.register("net")(value)
    assert registry.names() == ["net"]
    with refused("thing", "'net'", registry.entry("net").origin, by=RegistrationError) as raised:
        registry.register("net")(object())
    assert len(set(re.findall(rf"{re.escape(__file__)}:\d+", str(raised.value)))) == 2


@pytest.mark.parametrize("name", ["Net", "2net", "net-a", "net a", "_net", "nét", "net\n"])
def test_names_of_other_letters_are_refused(make, name):
    with refused(repr(name).split()[0], by=RegistrationError):
        make().register(name)(object())


@pytest.mark.parametrize("name", ["reverse_rev", "x_copy"])
def test_the_suffixes_of_variants_are_reserved(make, name):
    registry = make(reserved_suffixes=("_rev", "_copy"))
    with refused(f"'{name}'", f"'_{name.rpartition('_')[2]}'", by=RegistrationError):
        registry.register(name)(object())
    registry.register(f"{name}s")(object())
    with refused("'_rev'", by=RegistrationError):
        PROBLEMS.register("some_rev")(object)


def test_aliases_lead_to_their_target_and_say_so(make):
    registry = make()
    value = object()
    registry.register("long_name")(value)
    registry.alias("short", "long_name")
    assert registry.get("short") is value
    assert registry.entry("short").name == "long_name"
    (alias,) = registry.entries("short")
    assert alias.summary == "alias of long_name"
    with refused("'short'", by=RegistrationError):
        registry.register("short")(object())
    names = ("short", "long_name", "unknown")
    assert [registry.canonical(name) for name in names] == ["long_name", "long_name", "unknown"]
    registry.alias("shorter", "short")
    assert registry.canonical("shorter") == registry.entry("shorter").name == "long_name"
    registry.alias("lost", "nothing")
    with refused("'nothing'", by=UnknownNameError):
        registry.get("lost")


def test_a_frozen_registry_takes_nothing_more(make):
    registry = make()
    value = registry.register("early")(object())
    registry.freeze()
    with refused("'late'", f"{__file__}:", by=RegistrationError):
        registry.register("late")(object())
    registry.register("early")(value)
    with registry.open():
        registry.register("plugged_in")(value)
    with refused("'late'", by=RegistrationError):
        registry.register("late")(object())
    assert registry.names() == ["early", "plugged_in"]


def test_a_cell_of_a_notebook_may_be_run_again_also_after_a_run_has_started(make):
    registry, cell = make(), "@registry.register\nclass Mine:\n    n = {}\n"
    for n in (1, 2):
        exec(cell.format(n), {"__name__": "__main__", "registry": registry})
        registry.freeze()
        registry.thaw()
    assert registry.get("mine").n == 2
    with refused("'mine'"):
        exec(cell.format(3), {"__name__": "elsewhere", "registry": registry})


def test_what_an_open_registry_was_given_goes_where_the_block_fails(make):
    registry = make({"slow": SLOW}, read_source=True)

    def plug_in():
        with registry.open():
            registry.register("half")(object())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        plug_in()
    assert registry.names() == ["by_name", "slice_net"]


# === Built-ins ===
def test_an_import_error_of_a_built_in_is_shown_each_time(make):
    registry = make({"a": "@register_thing\ndef first(): pass", "b": "import no_such_library"})
    for _ in range(2):
        for look_up in (registry.names, lambda: registry.get("first")):
            with refused("'no_such_library'", by=ModuleNotFoundError):
                look_up()


def test_source_is_read_without_running_it_until_a_name_is_looked_up(make):
    registry = make({"slow": SLOW, "broken": "raise RuntimeError('was run')"}, read_source=True)
    assert [(entry.name, entry.summary, entry.value) for entry in registry.entries()] == [
        ("by_name", "Builds.", None), ("slice_net", "Slices.", None),
    ]  # fmt: skip
    with refused("'slice_net'", "slow.py:3", "test_registry", by=RegistrationError):
        registry.register("slice_net")(object())
    module = f"{registry.package}.slow"
    assert module not in sys.modules
    value = registry.get("slice_net")
    assert value is sys.modules[module].SliceNet
    assert registry.get("by_name") is sys.modules[module].build
    assert registry.names() == ["by_name", "slice_net"]
    registry = make({"slow": SLOW}, read_source=True)
    __import__(f"{registry.package}.slow")  # which does not register it twice
    assert registry.names() == ["by_name", "slice_net"]
    assert registry.entry("slice_net").value is not None


@pytest.mark.parametrize("read_source", [False, True])
def test_a_decorator_registers_aliases_too(make, read_source):
    source = '@register_thing("plain", aliases=["old", "short"])\nclass Plain:\n    pass\n'
    registry = make({"one": source}, read_source=read_source)
    assert registry.names() == ["old", "plain", "short"]
    assert [registry.canonical(name) for name in registry.names()] == ["plain"] * 3
    assert registry.get("old") is registry.get("plain")
    assert [entry.summary for entry in registry.entries("o")] == ["alias of plain", "alias of plain"]


def test_what_a_package_registers_is_read_and_imported(make, tmp_path):
    registry = make(read_source=True)
    inner = tmp_path / registry.package / "inner"
    inner.mkdir()
    (inner / "__init__.py").write_text(f"from {registry.package} import register_thing\n{SLOW}")
    assert registry.names() == ["by_name", "slice_net"]
    assert registry.get("slice_net") is sys.modules[f"{registry.package}.inner"].SliceNet


def test_what_a_class_declares_is_read_without_running_it(make):
    source = """
@register_thing
class Plain:
    reads = First

@register_thing("annotated")
class Other:
    reads: type = somewhere.Second

@register_thing
class Heir(Plain):
    pass

raise RuntimeError("was run")
"""
    registry = make({"slow": source}, read_source=True)
    registry.alias("also", "plain")
    found = {name: registry.declared(name, "reads") for name in ("plain", "also", "annotated", "heir")}
    assert found == {"plain": "First", "also": "First", "annotated": "Second", "heir": ""}
    registry.register("here")(type("Here", (), {"reads": int}))
    assert registry.declared("here", "reads") == ""


@pytest.mark.parametrize(("written", "name"), [
    # tensor2tensor's own table
    ("TypicalCamelCase", "typical_camel_case"), ("NumbersFuse2gether", "numbers_fuse2gether"),
    ("NumbersFuse2Gether", "numbers_fuse2_gether"), ("LSTMSeq2Seq", "lstm_seq2_seq"), ("startsLower", "starts_lower"),
    ("startsLowerCAPS", "starts_lower_caps"), ("CapsFUSETogether", "caps_fuse_together"), ("Startscap", "startscap"),
    ("STartscap", "s_tartscap"),
    # names that its users know
    ("NeuralGPU", "neural_gpu"), ("SliceNet", "slice_net"), ("ByteNet", "byte_net"), ("MultiModel", "multi_model"),
    ("TranslateEndeWmt32k", "translate_ende_wmt32k"), ("MtfResNet", "mtf_res_net"),
    ("transformer_base", "transformer_base"),
])  # fmt: skip
def test_default_names_are_tensor2tensors(written, name):
    assert snake_case(written) == name


# === Registrations read from source ===
def test_names_are_read_with_file_and_line_however_the_decorator_is_called(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("\n\n@register_thing\nclass NetA:\n    pass\n\n@other\n@register_thing('x')\ndef f(): ...\n")
    assert [(entry.name, entry.origin) for entry in read_registrations(path, "register_thing")] == [
        ("net_a", f"{path}:3"), ("x", f"{path}:7"),
    ]  # fmt: skip
    for decorator, name in (
        ("@register_thing", "my_net"), ("@register_thing()", "my_net"), ("@register_thing('other')", "other"),
        ("@register_thing(name='other')", "other"), ("@somewhere.register_thing(name='other')", "other"),
        ("@somewhere.register_thing", "my_net"),
    ):  # fmt: skip
        path.write_text(f"{decorator}\nclass MyNet:\n    pass\n")
        assert [entry.name for entry in read_registrations(path, "register_thing")] == [name]
    path.write_text("@register_thing(PREFIX + 'net')\nclass MyNet:\n    pass\n")  # which only running could tell
    with refused(f"{path}:1", "PREFIX", by=RegistrationError):
        read_registrations(path, "register_thing")
