"""The grammar of `--hparams`: tensor2tensor's own facts about it, one by one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import UnknownNameError, UserError
from t2t.hparams.override import (
    assigned_names,
    drop_overrides,
    format_overrides,
    join_overrides,
    merge_overrides,
    parse_overrides,
)

DEFAULTS = {
    "steps": 10, "rate": 0.5, "flag": True, "name": "adam", "relu.size": 3,
    "sizes": (1, 2, 3, 4), "rates": (0.1, 0.2), "names": ("a",), "nothing": (),
}  # fmt: skip


def parse(text, **current):
    return parse_overrides(text, DEFAULTS, {**DEFAULTS, **current})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("  ", {}),
        ("steps=4", {"steps": 4}),
        ("steps=4,rate=0.25,flag=false,name=sgd", {"steps": 4, "rate": 0.25, "flag": False, "name": "sgd"}),
        # white space and a comma at the end
        ("steps=4,", {"steps": 4}),
        ("steps=4, rate=1", {"steps": 4, "rate": 1.0}),
        (" steps = 4 ,  rate = 1 , ", {"steps": 4, "rate": 1.0}),
        # ints
        ("steps=-4", {"steps": -4}),
        ("steps=+4", {"steps": 4}),
        # floats may look like ints
        ("rate=0", {"rate": 0.0}),
        ("rate=+2", {"rate": 2.0}),
        ("rate=-2.0e10", {"rate": -2.0e10}),
        ("rate=.5", {"rate": 0.5}),
        # bools
        *[(f"flag={text}", {"flag": True}) for text in ("true", "True", "1")],
        *[(f"flag={text}", {"flag": False}) for text in ("false", "False", "0")],
        # strings hold anything but commas and opening brackets
        ("name=", {"name": ""}),
        ("name=,steps=4", {"name": "", "steps": 4}),
        ("name=a=b/c", {"name": "a=b/c"}),
        ("name=two words", {"name": "two words"}),
        ("name=4", {"name": "4"}),
        ("name=ü", {"name": "ü"}),
        # names with periods
        ("relu.size=7", {"relu.size": 7}),
        # lists
        ("sizes=[7]", {"sizes": (7,)}),
        ("sizes=[7,8, 9]", {"sizes": (7, 8, 9)}),
        ("sizes=[ 7 , 8 ],steps=4", {"sizes": (7, 8), "steps": 4}),
        ("sizes=[]", {"sizes": ()}),
        ("rates=[1,2e-3]", {"rates": (1.0, 0.002)}),
        ("names=[x,y=z]", {"names": ("x", "y=z")}),
        ("nothing=[p,q]", {"nothing": ("p", "q")}),
        # elements of lists
        ("sizes[3]=9", {"sizes": (1, 2, 3, 9)}),
        ("sizes[0]=9,sizes[2]=8", {"sizes": (9, 2, 8, 4)}),
        ("sizes[ 1 ] = 9", {"sizes": (1, 9, 3, 4)}),
        ("rates[1]=3", {"rates": (0.1, 3.0)}),
    ],
)
def test_what_is_read(text, values):
    found = parse(text)
    assert found == values
    assert {name: type(value) for name, value in found.items()} == {n: type(v) for n, v in values.items()}


def test_an_element_changes_the_present_list_not_the_default():
    assert parse("sizes[0]=9", sizes=(5, 6)) == {"sizes": (9, 6)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # types
        ("steps=1.0", "hparam steps=1.0: not of type int; give a value such as 4"),
        ("steps=1e3", "hparam steps=1e3: not of type int; give a value such as 4"),
        ("steps=", "hparam steps=: not of type int; give a value such as 4"),
        ("steps=abc", "hparam steps=abc: not of type int; give a value such as 4"),
        ("rate=abc", "hparam rate=abc: not of type float; give a value such as 0.1"),
        ("rate=", "hparam rate=: not of type float; give a value such as 0.1"),
        *[(f"flag={text}", f"hparam flag={text}: not of type bool; give a value such as true or false")
          for text in ("yes", "TRUE", "2", "", "t")],
        ("steps=" + "9" * 5000, f"hparam steps={'9' * 5000}: not of type int; give a value such as 4"),
        ("rate=1e999", "hparam rate=1e999: not of type float; give a value such as 0.1"),
        ("sizes[9999999999]=1", "--hparams='sizes[9999999999]=1': cannot read 'sizes[9999999999]=1'; write name=value,"
         "name=[v1,v2]"),
        ("sizes=[1,x]", "hparam sizes=x: not of type int; give a value such as 4"),
        ("sizes[0]=1.5", "hparam sizes=1.5: not of type int; give a value such as 4"),
        # lists and single values
        ("sizes=7", "hparam sizes=7: it is a list; write sizes=[v1,v2]"),
        ("steps=[123]", "hparam steps=[123]: it is one value, not a list; write steps=value"),
        ("name=[a]", "hparam name=[a]: it is one value, not a list; write name=value"),
        ("steps[0]=1", "hparam steps[0]: it is one value, not a list; write steps=value"),
        ("sizes[1]=[2,3]", "hparam sizes[1]: an element is one value, not a list"),
        ("sizes[4]=1", "hparam sizes[4]: it has 4 elements, counted from 0"),
        # twice
        ("steps=1,steps=2", "--hparams='steps=1,steps=2': steps is assigned twice; keep one"),
        ("sizes=[1],sizes[0]=2", "--hparams='sizes=[1],sizes[0]=2': sizes is assigned twice; keep one"),
        ("sizes[0]=2,sizes=[1]", "--hparams='sizes[0]=2,sizes=[1]': sizes is assigned twice; keep one"),
        ("sizes[1]=2,sizes[01]=3", "--hparams='sizes[1]=2,sizes[01]=3': sizes is assigned twice; keep one"),
        # malformed
        ("steps", "--hparams='steps': cannot read 'steps'; write name=value,name=[v1,v2]"),
        ("steps=1,rate", "--hparams='steps=1,rate': cannot read 'rate'; write name=value,name=[v1,v2]"),
        ("=1", "--hparams='=1': cannot read '=1'; write name=value,name=[v1,v2]"),
        ("steps=1,,rate=2", "--hparams='steps=1,,rate=2': cannot read ',rate=2'; write name=value,name=[v1,v2]"),
        ("name=a[b", "--hparams='name=a[b': cannot read 'name=a[b'; write name=value,name=[v1,v2]"),
        ("sizes=[1,2", "--hparams='sizes=[1,2': cannot read 'sizes=[1,2'; write name=value,name=[v1,v2]"),
        ("sizes=[1]2", "--hparams='sizes=[1]2': cannot read 'sizes=[1]2'; write name=value,name=[v1,v2]"),
        ("sizes[x]=1", "--hparams='sizes[x]=1': cannot read 'sizes[x]=1'; write name=value,name=[v1,v2]"),
        ("steps=1 rate=2", "hparam steps=1 rate=2: not of type int; give a value such as 4"),
    ],
)  # fmt: skip
def test_what_is_refused(text, message):
    with pytest.raises(UserError) as error:
        parse(text)
    assert str(error.value) == message


def test_no_new_names():
    with pytest.raises(UnknownNameError) as error:
        parse("stepz=1")
    assert str(error.value) == "hparam 'stepz' does not exist; did you mean steps? see --registry_help=hparams"


@pytest.mark.parametrize("name", ["steps", "rate", "relu.size"])
def test_not_a_number_is_no_number(name):
    with pytest.raises(UserError, match=rf"hparam {re.escape(name)}=nan"):
        parse(f"{name}=nan")


@pytest.mark.parametrize(
    ("earlier", "later", "merged"),
    [
        ("", "", ""),
        ("num_heads=4,", "", "num_heads=4"),
        ("", "num_heads=8", "num_heads=8"),
        ("num_heads=4, batch_size=10,sizes=[1,2]", "batch_size=20", "num_heads=4,sizes=[1,2],batch_size=20"),
        ("name=", "steps=1,", "name=,steps=1"),
        # lists and their elements
        ("sizes=[1,2],rate=0.5", "sizes=[3]", "rate=0.5,sizes=[3]"),
        ("sizes=[ 1, 2 ],rate=0.5", "sizes[1]=3", "sizes=[1,3],rate=0.5"),
        ("sizes=[1,2,3]", "sizes[ 2 ] = 5, sizes[0]=4", "sizes=[4,2,5]"),
        ("sizes[0]=5,sizes[2]=7", "sizes[2]=8,sizes[1]=6", "sizes[0]=5,sizes[2]=8,sizes[1]=6"),
        ("sizes[0]=5,steps=2,sizes[2]=7", "sizes=[1]", "steps=2,sizes=[1]"),
        ("names=[a,b]", "names[0]=c=d", "names=[c=d,b]"),
        # what is malformed stays, to be named
        ("steps=1", "rate=1,rate=2", "steps=1,rate=1,rate=2"),
        ("sizes=[1]", "sizes[0]=2,sizes[0]=3", "sizes=[1],sizes[0]=2,sizes[0]=3"),
        ("steps=1", "rate", "steps=1,rate"),
        ("steps=1", "rate=1,,name=x", "steps=1,rate=1,,name=x"),
    ],
)
def test_later_overrides_take_the_place_of_earlier_ones(earlier, later, merged):
    assert merge_overrides(earlier, later) == merged


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ("sizes[2]=1", "hparam sizes[2]: it has 2 elements, counted from 0"),
        ("sizes[1]=[1]", "hparam sizes[1]: an element is one value, not a list"),
    ],
)
def test_an_element_must_fit_the_earlier_list(later, message):
    with pytest.raises(UserError) as error:
        merge_overrides("sizes=[1,2]", later)
    assert str(error.value) == message


KEYS = st.sampled_from(["steps", "sizes", "sizes[0]", "sizes[1]", "names", "rate"])


@given(st.lists(KEYS, unique=True), st.lists(KEYS, unique=True))
def test_merging_is_overriding_twice(earlier, later):
    def text(keys, number):
        values = {"sizes": f"[{number},2,3]", "names": "[a,b]", "rate": f"0.{number}"}
        found, seen = [], set()
        for key in keys:
            name, _, index = key.partition("[")
            if (name, "") not in seen and not (not index and any(one == name for one, _ in seen)):
                seen.add((name, index))
                found.append(f"{key}={values.get(key, number)}")
        return ",".join(found)

    first, second = text(earlier, 4), text(later, 5)
    changed = parse(first)
    assert parse(merge_overrides(first, second)) == {**changed, **parse(second, **changed)}


def test_texts_are_joined_whatever_they_end_in():
    assert join_overrides(["steps=1, ", "", " sizes=[1,2],", "name="]) == "steps=1,sizes=[1,2],name="
    assert parse(join_overrides(["steps=1,", "rate=2"])) == {"steps": 1, "rate": 2.0}
    with pytest.raises(UserError, match="steps is assigned twice; keep one"):
        parse(join_overrides(["steps=1", "steps=2"]))


def test_values_are_formatted_as_they_are_read():
    values = {
        "steps": -3,
        "rate": 1e-9,
        "flag": False,
        "name": "a=b",
        "sizes": (7, 8),
        "rates": (0.1, 1e20),
        "nothing": (),
    }
    assert parse(format_overrides(values)) == values


def test_the_names_that_are_assigned():
    assert assigned_names("steps=1, sizes[2]=3,names=[a,b]") == {"steps", "sizes", "names"}


def test_a_name_is_dropped_as_a_whole_and_by_element():
    text = "steps=1, sizes[2]=3,rate=0.5,sizes[0]=4,names"
    assert drop_overrides(text, "sizes") == "steps=1,rate=0.5,names"
    assert drop_overrides(text, "names") == "steps=1,sizes[2]=3,rate=0.5,sizes[0]=4,names"
    assert drop_overrides("steps=1", "steps") == ""
