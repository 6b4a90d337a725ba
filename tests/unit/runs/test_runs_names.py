"""Names that lead nowhere, and functions of plug-ins that are registered under names of hparams."""

import pytest

from t2t.registry import HPARAMS, HPARAMS_RANGES
from t2t.runs.names import get_hparams, get_text_problem, split_variants
from t2t.tuning.searching import get_range
from tests.errors import refused
from tests.registrations import registered


def get_named_range(name):
    return get_range(name, "")


@pytest.mark.parametrize(("registry", "function", "get", "about"), [
    (HPARAMS, lambda hparams: hparams, get_hparams, ["'hparams'"]),
    (HPARAMS_RANGES, lambda: None, get_named_range, []),
    (HPARAMS_RANGES, lambda one, two: None, get_named_range, ["'two'"]),
])  # fmt: skip
def test_a_function_with_other_arguments_is_named_by_its_origin(registry, function, get, about):
    with registered(registry, "my_name", function), refused("'my_name'", "registrations.py:", *about):
        get("my_name")


@pytest.mark.parametrize(("registry", "function", "get", "about"), [
    (HPARAMS, lambda: None, get_hparams, ["'my_name'", "NoneType"]),
    (HPARAMS_RANGES, lambda rhp: rhp.set_int("train_steps", 1, 9), get_named_range, ["--hparams_range=my_name:"]),
])  # fmt: skip
def test_a_function_that_gives_something_else_is_named(registry, function, get, about):
    with registered(registry, "my_name", function), refused(*about):
        get("my_name")


@pytest.mark.parametrize(("get", "name", "about"), [
    (get_text_problem, "nothing", ["'nothing'", "--problem"]),
    (get_text_problem, "image_mnist", ["--problem=image_mnist:", "text2text_files"]),
    (split_variants, "tiny_algo_rev_rev", ["'tiny_algo_rev_rev':", "'_rev'"]),
    (get_named_range, "", ["--hparams_range:"]),
])  # fmt: skip
def test_names_that_lead_nowhere(get, name, about):
    with refused(*about):
        get(name)
