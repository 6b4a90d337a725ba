import pytest

from t2t.errors import MachineError, T2TError, UnknownNameError, UserError, did_you_mean, nearest, one_line

KNOWN = ["transformer", "transformer_base", "transformer_big", "lstm"]


def test_exit_statuses():
    assert (UserError.exit_status, MachineError.exit_status) == (2, 1)
    assert issubclass(UserError, T2TError)
    assert issubclass(MachineError, T2TError)
    assert not issubclass(MachineError, UserError)


def test_an_unknown_name_is_a_lookup_error():
    with pytest.raises(LookupError):
        raise UnknownNameError("x")


def test_nearest_are_the_most_alike_first_and_at_most_three():
    assert nearest("transformer_bas", KNOWN) == ["transformer_base", "transformer_big", "transformer"]
    assert nearest("transformer_bas", KNOWN, most=1) == ["transformer_base"]
    assert nearest("zzz", KNOWN) == []


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("lstn", KNOWN, "did you mean lstm?; "),
        ("ab", ["ac", "aa"], "did you mean ac or aa?; "),
        ("transformer_bas", KNOWN, "did you mean transformer_base, transformer_big or transformer?; "),
        ("zzz", KNOWN, ""),
    ],
)
def test_did_you_mean(name, known, text):
    assert did_you_mean(name, known) == text


def test_one_line_takes_every_white_space_for_a_space():
    assert one_line("a\n  b\tc\r\n") == "a b c"
    assert one_line(ValueError("x\ny")) == "x y"
