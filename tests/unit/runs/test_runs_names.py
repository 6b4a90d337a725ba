"""Functions of plug-ins that are registered under names of hparams."""

import re

import pytest

from t2t.errors import UserError
from t2t.registry import HPARAMS, HPARAMS_RANGES
from t2t.runs.names import get_hparams
from t2t.tuning.searching import get_range
from tests.registrations import registered


def get_named_range(name):
    return get_range(name, "")


@pytest.mark.parametrize(
    ("registry", "function", "get", "said"),
    [
        (HPARAMS, lambda hparams: hparams, get_hparams, "no argument: missing a required argument: 'hparams'"),
        (HPARAMS_RANGES, lambda: None, get_named_range, "one argument: too many positional arguments"),
        (HPARAMS_RANGES, lambda one, two: None, get_named_range, "one argument: missing a required argument: 'two'"),
    ],
)
def test_a_function_with_other_arguments_is_named_by_its_origin(registry, function, get, said):
    with registered(registry, "my_name", function), pytest.raises(UserError) as caught:
        get("my_name")
    origin = re.search(r"\((.*registrations\.py:\d+)\)", str(caught.value))[1]
    assert str(caught.value) == (
        f"{registry.kind} 'my_name' ({origin}): its function is called with {said}; change its parameters, or give "
        f"them defaults"
    )
