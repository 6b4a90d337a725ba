"""Properties of every registered hparams set, and a golden file of all values, so that changes show in review."""

import json
import textwrap

import pytest

from t2t.hparams.base import HParams
from t2t.registry import HPARAMS
from t2t.runs.decisions import long_warmup
from t2t.runs.names import get_hparams
from tests.reference.tensor2tensor_hparams import THEIRS, expected_values

NAMES = [entry.name for entry in HPARAMS.entries() if not entry.alias_of]

HEADER = """\
# Guards against unmeant change; the values are no proof of anything. The sources stand in t2t/hparams/.
# First the defaults, by section and by family; then what differs in each set from them or from a set of its family,
# but for the values that tests/reference/tensor2tensor_hparams.py has.
# Rewrite with: pytest tests/conformance --update-golden
"""


def as_text(value):
    """A value as a user would type it after `--hparams=name=`."""
    if isinstance(value, tuple):
        return "[" + ",".join(map(as_text, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_is_valid_has_a_summary_and_comes_back_from_json(name):
    assert isinstance(HPARAMS.get(name)(), HParams)
    assert HPARAMS.entry(name).summary
    assert not long_warmup(get_hparams(name))
    hparams = get_hparams(name).freeze()
    read = hparams.from_dict(json.loads(json.dumps(hparams.to_dict())))
    assert read == hparams
    read.freeze()
    changed = get_hparams(name)  # every call gives a set of its own
    changed.hidden_size += 2
    assert get_hparams(name).hidden_size == changed.hidden_size - 2


@pytest.mark.parametrize("name", NAMES)
def test_every_field_can_be_overridden_by_its_own_text_and_is_documented_in_one_line(name):
    hparams = get_hparams(name)
    for field, value in hparams.items():
        assert getattr(hparams.override(f"{field}={as_text(value)}"), field) == value
        text = hparams.document(field)
        assert text.endswith("."), field
        assert "\n" not in text
        assert text[0].isupper() or text.startswith(("gnmt", "post")), field
    full = ",".join(f"{field}={as_text(value)}" for field, value in hparams.items())
    assert hparams.override(full) == hparams


def test_all_sets_have_the_values_that_they_had(golden):
    sets = {name: get_hparams(name) for name in NAMES}
    families = {family for hparams in sets.values() for family in type(hparams).__mro__ if issubclass(family, HParams)}
    sections = [_paragraph(f"HParams, {section}:", values) for section, values in HParams().to_dict().items()]
    defaults = [_family(family) for family in sorted(families - {HParams}, key=lambda family: family.__name__)]
    values = [_set(name, sets) for name in NAMES]
    golden("hparams.txt", HEADER + "".join([*sections, *defaults, *values]))


def _family(family):
    base = next(base for base in family.__mro__[1:] if issubclass(base, HParams))
    return _paragraph(f"{family.__name__} = {base.__name__}", _changes(family(), base()))


def _set(name, sets):
    """A set as what differs from the nearest of its family's defaults and the sets of its family before it."""
    hparams = sets[name]
    bases = {type(hparams).__name__: type(hparams)()}
    bases |= {one: sets[one] for one in NAMES[: NAMES.index(name)] if type(sets[one]) is type(hparams)}
    nearest = min(bases, key=lambda one: len(hparams.difference(bases[one])))
    return _paragraph(f"{name} = {nearest}", _changes(hparams, bases[nearest]), _fields_of_theirs(name))


def _changes(hparams, base):
    return {field: value for field, (_, value) in hparams.difference(base).items()}


def _fields_of_theirs(name):
    return {field for theirs in THEIRS if HPARAMS.canonical(theirs) == name for field in expected_values(theirs)}


def _paragraph(title, values, left_out=frozenset()):
    texts = [f"{field}={as_text(value)}" for field, value in sorted(values.items()) if field not in left_out]
    wrapped = textwrap.wrap(" ".join([title, *texts]), 120, break_long_words=False, break_on_hyphens=False)
    return "\n  ".join(wrapped) + "\n"
