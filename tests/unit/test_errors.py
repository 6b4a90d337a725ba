import pytest

from t2t.cli.server import needs_serving
from t2t.errors import (
    MachineError,
    UnknownNameError,
    UserError,
    asked_and_found,
    did_you_mean,
    nearest,
    needs_extra,
    one_line,
)
from tests.errors import refused

KNOWN = ["transformer", "transformer_base", "transformer_big", "lstm"]


def test_classes_and_exit_statuses():
    assert (UserError.exit_status, MachineError.exit_status) == (2, 1)
    assert issubclass(UnknownNameError, UserError | LookupError)
    assert not issubclass(MachineError, UserError)


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("lstn", KNOWN, "did you mean lstm? "),
        ("ab", ["ac", "aa"], "did you mean ac or aa? "),
        ("transformer_bas", KNOWN, "did you mean transformer_base, transformer_big or transformer? "),
        ("zzz", KNOWN, ""),
    ],
)
def test_did_you_mean(name, known, text):
    assert did_you_mean(name, known) == text


def test_one_line_takes_every_white_space_for_a_space():
    assert one_line("a\n  b\tc\r\n") == "a b c"
    assert one_line(ValueError("x\ny")) == "x y"


def test_an_optional_package_that_is_missing_is_named_with_what_installs_it():
    with refused("--format=x:", "no_such_package", "'t2t-keras[onnx]'"), needs_extra("onnx", "--format=x"):
        raise ModuleNotFoundError("No module named 'no_such_package.part'", name="no_such_package.part")


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError(name="t2t.gone"), ModuleNotFoundError(), ImportError(name="soundfile")]
)
def test_other_errors_of_imports_are_no_missing_package(error):
    with pytest.raises(type(error)) as raised, needs_extra("audio", "reading sound files"):
        raise error
    assert raised.value is error


def test_a_service_without_its_packages_says_what_installs_them():
    with refused("no_such_package", "'t2t-keras[serve]'"), needs_serving():
        import no_such_package  # noqa: F401


def test_only_the_begin_of_a_long_name_is_compared():
    known = ["x" * 200, "y" * 200]
    assert nearest("x" * 200 + "y" * 10_000, known) == known[:1]


@pytest.mark.parametrize(
    ("asked", "found", "shown"),
    [
        ("3", "40", "requested 3, found 40"),
        ("x" * 200, "none", f"requested {'x' * 200}, found none"),
        (
            "/corpora/" + "a" * 300 + "/new.en" + "b" * 199,
            "/corpora/" + "a" * 300 + "/old.en" + "b" * 199,
            f"requested ...{'a' * 99}/new.en{'b' * 94}..., found ...{'a' * 99}/old.en{'b' * 94}...",
        ),
        ("a" * 300, "a" * 301, f"requested ...{'a' * 200}, found ...{'a' * 200}"),
        ("x" + "a" * 299, "y", f"requested x{'a' * 199}..., found y"),
    ],
)
def test_of_long_values_the_difference_is_shown(asked, found, shown):
    assert asked_and_found(asked, found) == shown
