"""The output of `--registry_help`."""

import re

from t2t.registry import HPARAMS, MODELS, PROBLEMS
from t2t.runs.listing import registry_listing
from t2t.runs.names import get_hparams
from tests.registrations import registered

BABI = [f"babi_qa_concat_task{task}_{size}k" for task in range(1, 21) for size in (1, 10)]


def names_in(listing):
    return re.findall(r"^  ([a-z]\S*)  ", listing, re.M)


def test_names_that_differ_in_their_numbers_share_a_line_and_every_other_has_its_own():
    listing = registry_listing()
    (row,) = [line for line in listing.splitlines() if "babi_qa_concat_task" in line]
    assert row.split()[0] == "babi_qa_concat_task{1..20}_{1,10}k"
    assert all(word in row for word in ("40", "--registry_help=babi_qa_concat_task"))
    listed = names_in(listing)
    for registry in (PROBLEMS, MODELS, HPARAMS):
        for name in registry.names():
            assert (name in listed) == (name not in BABI), name


def test_a_text_lists_each_name_that_contains_it():
    listed = names_in(registry_listing("babi"))
    assert set(BABI) < set(listed)
    assert all("babi" in name for name in listed)


def test_families_keep_what_is_the_same_and_numbers_in_their_order():
    with registered(PROBLEMS, "a_family_5_of_007_x", object), PROBLEMS.open():
        for number in (9, 10, 11, 12, 100, 2, 3):
            PROBLEMS.alias(f"a_family_{number}_of_007_x", "tiny_algo")
        listing = registry_listing()
    assert "  a_family_{2,3,5,9,10,11,12,100}_of_007_x  " in listing


def test_the_last_of_the_problems_are_the_variants():
    assert re.search(r"_rev.*_masked +.*transformer_mlm$", registry_listing(), re.M)


def fields_in(listing):
    return re.findall(r"^  ([a-z_0-9]+)=", listing, re.M)


def test_the_fields_of_all_sets_are_listed():
    wanted = {field for entry in HPARAMS.entries() for field, _ in get_hparams(entry.name).items()}
    assert set(fields_in(registry_listing("hparams"))) == wanted


def test_the_name_of_a_set_lists_its_fields():
    listing = registry_listing("lstm_moe_2048")
    assert fields_in(listing) == [field for field, _ in get_hparams("lstm_moe_2048").items()]
    assert "\n  expert_groups=16  Number of groups" in listing
