"""The grammar of `--hparams`: tensor2tensor's own facts about it, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t.errors import ArgumentError, UnknownNameError
from t2t.hparams.override import (
    assigned_names,
    drop_overrides,
    format_overrides,
    join_overrides,
    merge_overrides,
    parse_overrides,
)
from tests.errors import refused

DEFAULTS = {
    "steps": 10, "rate": 0.5, "flag": True, "name": "adam", "relu.size": 3,
    "sizes": (1, 2, 3, 4), "rates": (0.1, 0.2), "names": ("a",), "nothing": (),
}  # fmt: skip


def parse(text, **current):
    return parse_overrides(text, DEFAULTS, {**DEFAULTS, **current})


@pytest.mark.parametrize(("text", "values"), [
    ("", {}), ("  ", {}), ("steps=4", {"steps": 4}),
    ("steps=4,rate=0.25,flag=false,name=sgd", {"steps": 4, "rate": 0.25, "flag": False, "name": "sgd"}),
    # white space and a comma at the end
    ("steps=4,", {"steps": 4}), ("steps=4, rate=1", {"steps": 4, "rate": 1.0}),
    (" steps = 4 ,  rate = 1 , ", {"steps": 4, "rate": 1.0}),
    # ints; floats may look like ints
    ("steps=-4", {"steps": -4}), ("steps=+4", {"steps": 4}),
    ("rate=0", {"rate": 0.0}), ("rate=+2", {"rate": 2.0}), ("rate=-2.0e10", {"rate": -2.0e10}),
    ("rate=.5", {"rate": 0.5}),
    # bools
    *[(f"flag={text}", {"flag": True}) for text in ("true", "True", "1")],
    *[(f"flag={text}", {"flag": False}) for text in ("false", "False", "0")],
    # strings hold anything but commas and opening brackets
    ("name=", {"name": ""}), ("name=,steps=4", {"name": "", "steps": 4}), ("name=a=b/c", {"name": "a=b/c"}),
    ("name=two words", {"name": "two words"}), ("name=4", {"name": "4"}), ("name=ü", {"name": "ü"}),
    # in quotes they hold these, too
    ("name='a[0-3],b{1,2}'", {"name": "a[0-3],b{1,2}"}), ("steps=1, name = \"it's[\" , rate=2",
     {"steps": 1, "name": "it's[", "rate": 2.0}), ("name='a'b", {"name": "'a'b"}), ("name=''", {"name": ""}),
    ("names[0]='a,b'", {"names": ("a,b",)}),
    # names with periods
    ("relu.size=7", {"relu.size": 7}),
    # lists and their elements
    ("sizes=[7]", {"sizes": (7,)}), ("sizes=[7,8, 9]", {"sizes": (7, 8, 9)}), ("sizes=[]", {"sizes": ()}),
    ("sizes=[ 7 , 8 ],steps=4", {"sizes": (7, 8), "steps": 4}), ("rates=[1,2e-3]", {"rates": (1.0, 0.002)}),
    ("names=[x,y=z]", {"names": ("x", "y=z")}), ("nothing=[p,q]", {"nothing": ("p", "q")}),
    ("sizes[3]=9", {"sizes": (1, 2, 3, 9)}), ("sizes[0]=9,sizes[2]=8", {"sizes": (9, 2, 8, 4)}),
    ("sizes[ 1 ] = 9", {"sizes": (1, 9, 3, 4)}), ("rates[1]=3", {"rates": (0.1, 3.0)}),
])  # fmt: skip
def test_what_is_read(text, values):
    found = parse(text)
    assert found == values
    assert {name: type(value) for name, value in found.items()} == {n: type(v) for n, v in values.items()}
    assert parse("sizes[0]=9", sizes=(5, 6)) == {"sizes": (9, 6)}, "an element of the present list, not the default"


@pytest.mark.parametrize(("text", "about"), [
    # types
    *[(f"steps={text}", "int") for text in ("1.0", "1e3", "", "abc", "9" * 5000)],
    *[(f"rate={text}", "float") for text in ("abc", "", "1e999")],
    *[(f"flag={text}", "bool") for text in ("yes", "TRUE", "2", "", "t")],
    ("sizes=[1,x]", "sizes=x"), ("sizes[0]=1.5", "sizes=1.5"), ("steps=1 rate=2", "int"),
    # lists and single values
    ("sizes=7", "sizes=[v1,v2]"), ("steps=[123]", "steps=value"), ("name=[a]", "name=value"),
    ("steps[0]=1", "steps=value"), ("sizes[1]=[2,3]", "sizes[1]"), ("sizes[4]=1", "sizes[4]"),
    # twice
    *[(text, "sizes") for text in ("sizes=[1],sizes[0]=2", "sizes[0]=2,sizes=[1]", "sizes[1]=2,sizes[01]=3")],
    ("steps=1,steps=2", "steps"),
    # malformed
    *[(text, repr(text)) for text in ("steps", "=1", "name=a[b", "sizes=[1,2", "sizes=[1]2", "sizes[x]=1")],
    ("sizes[9999999999]=1", "'sizes[9999999999]=1'"),
    ("steps=1,rate", "'rate'"), ("steps=1,,rate=2", "',rate=2'"),
])  # fmt: skip
def test_what_is_refused(text, about):
    with refused(about, *(text.split() if text.count("=") == 1 and "[" not in text else ())):
        parse(text)


def test_no_new_names_nor_what_is_not_a_number():
    with refused("'stepz'", "steps?", by=UnknownNameError):
        parse("stepz=1")
    for name in ("steps", "rate", "relu.size"):
        with refused(f"{name}=nan"):
            parse(f"{name}=nan")


@pytest.mark.parametrize(("earlier", "later", "merged"), [
    ("", "", ""), ("num_heads=4,", "", "num_heads=4"), ("", "num_heads=8", "num_heads=8"),
    ("num_heads=4, batch_size=10,sizes=[1,2]", "batch_size=20", "num_heads=4,sizes=[1,2],batch_size=20"),
    ("name=", "steps=1,", "name=,steps=1"),
    # lists and their elements
    ("sizes=[1,2],rate=0.5", "sizes=[3]", "rate=0.5,sizes=[3]"),
    ("sizes=[ 1, 2 ],rate=0.5", "sizes[1]=3", "sizes=[1,3],rate=0.5"),
    ("sizes=[1,2,3]", "sizes[ 2 ] = 5, sizes[0]=4", "sizes=[4,2,5]"),
    ("sizes[0]=5,sizes[2]=7", "sizes[2]=8,sizes[1]=6", "sizes[0]=5,sizes[2]=8,sizes[1]=6"),
    ("sizes[0]=5,steps=2,sizes[2]=7", "sizes=[1]", "steps=2,sizes=[1]"),
    ("names=[a,b]", "names[0]=c=d", "names=[c=d,b]"),
    ("name='a[0],b',steps=1", "steps=2", "name='a[0],b',steps=2"),
    # what is malformed stays, to be named
    ("steps=1", "rate=1,rate=2", "steps=1,rate=1,rate=2"), ("steps=1", "rate", "steps=1,rate"),
    ("sizes=[1]", "sizes[0]=2,sizes[0]=3", "sizes=[1],sizes[0]=2,sizes[0]=3"),
    ("steps=1", "rate=1,,name=x", "steps=1,rate=1,,name=x"),
])  # fmt: skip
def test_later_overrides_take_the_place_of_earlier_ones(earlier, later, merged):
    assert merge_overrides(earlier, later) == merged


@pytest.mark.parametrize(("later", "about"), [("sizes[2]=1", "sizes[2]"), ("sizes[1]=[1]", "sizes[1]")])
def test_an_element_must_fit_the_earlier_list(later, about):
    with refused(about):
        merge_overrides("sizes=[1,2]", later)


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


def test_texts_are_joined_whatever_they_end_in_and_values_formatted_as_they_are_read():
    assert join_overrides(["steps=1, ", "", " sizes=[1,2],", "name="]) == "steps=1,sizes=[1,2],name="
    assert parse(join_overrides(["steps=1,", "rate=2"])) == {"steps": 1, "rate": 2.0}
    with refused("steps"):
        parse(join_overrides(["steps=1", "steps=2"]))
    values = {
        "steps": -3, "rate": 1e-9, "flag": False, "name": "a=b", "sizes": (7, 8), "rates": (0.1, 1e20), "nothing": (),
    }  # fmt: skip
    assert parse(format_overrides(values)) == values
    for text in ("a[0-3],b", "it's [", "'a'", '"a,'):
        assert parse(format_overrides({"name": text})) == {"name": text}
    for wrong in ({"name": "'a', \"b\""}, {"names": ("a,b",)}):
        with refused(*wrong, "quotes,", by=ArgumentError):
            format_overrides(wrong)


def test_a_name_is_dropped_as_a_whole_and_by_element():
    text = "steps=1, sizes[2]=3,rate=0.5,sizes[0]=4,names"
    assert drop_overrides(text, "sizes") == "steps=1,rate=0.5,names"
    assert drop_overrides(text, "names") == "steps=1,sizes[2]=3,rate=0.5,sizes[0]=4,names"
    assert drop_overrides("steps=1", "steps") == ""
    assert assigned_names("steps=1, sizes[2]=3,names=[a,b]") == {"steps", "sizes", "names"}
