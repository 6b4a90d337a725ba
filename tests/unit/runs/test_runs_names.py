"""Functions of plug-ins that are registered under names of hparams."""

import pytest

from t2t.registry import HPARAMS, HPARAMS_RANGES
from t2t.runs.names import get_hparams
from t2t.tuning.searching import get_range
from tests.errors import refused
from tests.registrations import registered


def get_named_range(name):
    return get_range(name, "")


@pytest.mark.parametrize(
    ("registry", "function", "get", "about"),
    [
        (HPARAMS, lambda hparams: hparams, get_hparams, ["'hparams'"]),
        (HPARAMS_RANGES, lambda: None, get_named_range, []),
        (HPARAMS_RANGES, lambda one, two: None, get_named_range, ["'two'"]),
    ],
)
def test_a_function_with_other_arguments_is_named_by_its_origin(registry, function, get, about):
    with registered(registry, "my_name", function), refused("'my_name'", "registrations.py:", *about):
        get("my_name")
