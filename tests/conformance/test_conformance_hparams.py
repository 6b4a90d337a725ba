"""Properties of every registered hparams set, and golden files of all values, so that changes show in review."""

import json
from pathlib import Path

import pytest

from t2t.hparams.base import HParams
from t2t.registry import HPARAMS
from t2t.runs.names import get_hparams

NAMES = [entry.name for entry in HPARAMS.entries() if not entry.alias_of]
EXPANSIONS = Path(__file__).parents[1] / "golden" / "hparams"

HEADER = """\
# Guards against unmeant change; the values are no proof of anything. The sources stand in t2t/hparams/.
# Rewrite with: pytest tests/conformance --update-golden
"""


def as_text(value):
    """A value as a user would type it after `--hparams=name=`."""
    if isinstance(value, tuple):
        return "[" + ",".join(map(as_text, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", NAMES)
def test_is_valid_and_has_a_summary(name):
    assert isinstance(HPARAMS.get(name)(), HParams)
    get_hparams(name).freeze()
    assert HPARAMS.entry(name).summary


@pytest.mark.parametrize("name", NAMES)
def test_every_call_gives_a_set_of_its_own(name):
    changed = get_hparams(name)
    changed.hidden_size += 2
    assert get_hparams(name).hidden_size == changed.hidden_size - 2


@pytest.mark.parametrize("name", NAMES)
def test_comes_back_from_json(name):
    hparams = get_hparams(name).freeze()
    read = hparams.from_dict(json.loads(json.dumps(hparams.to_dict())))
    assert read == hparams
    read.freeze()


@pytest.mark.parametrize("name", NAMES)
def test_every_field_can_be_overridden_by_its_own_text(name):
    hparams = get_hparams(name)
    for field, value in hparams.items():
        assert getattr(hparams.override(f"{field}={as_text(value)}"), field) == value
    whole = ",".join(f"{field}={as_text(value)}" for field, value in hparams.items())
    assert hparams.override(whole) == hparams


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_documented_in_one_line(name):
    hparams = get_hparams(name)
    for field, _ in hparams.items():
        text = hparams.document(field)
        assert text.endswith("."), field
        assert "\n" not in text
        assert text[0].isupper() or text.startswith(("gnmt", "post")), field


@pytest.mark.parametrize("name", NAMES)
def test_expands_to_what_it_did(name, golden):
    lines = [f"{section}.{field}: {value!r}" for section, values in get_hparams(name).to_dict().items()
             for field, value in values.items()]  # fmt: skip
    golden(f"hparams/{name}.txt", HEADER + "\n".join(sorted(lines)) + "\n")


def test_no_expansion_is_left_of_a_set_that_is_gone():
    assert sorted(path.stem for path in EXPANSIONS.iterdir()) == NAMES


def test_the_sets_that_tensor2tensor_users_ask_for_are_there():
    assert {
        "transformer_base", "transformer_big", "transformer_base_single_gpu", "transformer_big_single_gpu",
        "transformer_small", "transformer_tiny",
    } <= set(NAMES)  # fmt: skip
