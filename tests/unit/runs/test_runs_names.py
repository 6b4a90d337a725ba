"""Names of problems, sets and runs: those that lead nowhere, and requests for several problems at once."""

import re

import pytest

from t2t.cli import trainer
from t2t.errors import UnknownNameError
from t2t.hparams.transformer import transformer_tiny
from t2t.registry import HPARAMS, HPARAMS_RANGES, MODELS, PROBLEMS
from t2t.runs.config import RunConfig
from t2t.runs.experiment import Experiment
from t2t.runs.listing import registry_listing
from t2t.runs.names import (
    canonical,
    check_mixture,
    get_hparams,
    get_text_problem,
    shared_options,
    split_config,
    split_variants,
)
from t2t.tuning import api
from t2t.tuning.searching import get_range
from tests.errors import refused
from tests.registrations import registered


def get_named_range(name):
    return get_range(name, "")


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


# === Several problems ===
BOTH = "tiny_algo-algorithmic_reverse_binary40_test"


def request_for(problem=BOTH, overrides="", **options):
    return RunConfig(
        problem=problem, model="transformer", hparams_set="transformer_tiny", hparams=overrides,
        problem_options=options,
    )  # fmt: skip


def test_each_problem_gets_the_options_that_are_for_it():
    asked = request_for(
        "text2text_files-tiny_algo", train_source="/a", **{"tiny_algo.vocab_kind": "byte"}, vocab_size=9
    )
    files, algo = split_config(asked)
    assert files.problem_options == {"train_source": "/a", "vocab_size": 9}
    assert algo.problem_options == {"vocab_kind": "byte", "vocab_size": 9}
    assert (files.problem, algo.problem) == ("text2text_files", "tiny_algo")
    alone = request_for("tiny_algo", vocab_kind="byte")
    assert split_config(alone) == [alone]
    with refused("--train_trees", *BOTH.split("-")):
        split_config(request_for(train_trees="/a"))


def test_names_of_mixtures_are_their_own_and_checked_one_by_one():
    assert canonical("problem", BOTH + "_rev_copy") == BOTH + "_rev_copy"
    with refused("tiny_algo"):
        canonical("problem", "tiny_algo-tiny_algo")
    Experiment.of(request_for())
    with refused("'tiny_alga'", "tiny_algo", by=UnknownNameError):
        Experiment.of(request_for("algorithmic_reverse_binary40_test-tiny_alga"))


def test_flags_give_all_problems_the_same_options_also_those_of_trials():
    """Records of runs name each problem; `changed` leaves out what is a problem's default."""
    problem = "text2text_files-tiny_algo"
    files = {f"{split}_{side}": f"/{split}.{side}" for split in ("train", "dev") for side in ("source", "target")}
    of_files = {f"text2text_files.{name}": value for name, value in {**files, "vocab_size": 9}.items()}
    assert shared_options(request_for(problem, **of_files, **{"tiny_algo.vocab_size": 9})) == {
        **files,
        "vocab_size": 9,
    }
    assert shared_options(request_for(problem, **of_files, vocab_size=8)) == {**files, "vocab_size": 8}
    assert shared_options(request_for(BOTH, vocab_size=9)) == {"vocab_size": 9}
    assert shared_options(request_for("tiny_algo", vocab_size=9)) == {"vocab_size": 9}
    assert shared_options(request_for(BOTH)) == {}
    for other in ({"tiny_algo.vocab_size": 8}, {}):
        with refused("text2text_files.vocab_size=9", "tiny_algo.vocab_size="):
            shared_options(request_for(problem, **of_files, **other))
    options = {f"{name}.vocab_size": 9 for name in BOTH.split("-")}
    given = api._arguments(RunConfig.given({"problem": BOTH, "problem_options": options, "local_eval_frequency": 5}))
    values = trainer.build_flags()
    values(["t2t-trainer", *given])
    assert (values.problem, values.vocab_size, values.local_eval_frequency) == (BOTH, 9, 5)


@pytest.mark.parametrize(("overrides", "about"), [
    ("problem_choice=weights,problem_weights=[1,2,3]", ["problem_weights=[1.0,", "--problems=", 2]),
    ("problem_batch_sizes=[8,-1]", ["problem_batch_sizes=[8,", "--problems=", 2]),
    ("problem_choice=weights,problem_weights=[0,0]", ["problem_weights=[0.0,"]),
    ("problem_weights=[1,2]", ["problem_weights", "problem_choice=uniform", "problem_choice=weights"]),
])  # fmt: skip
def test_hparams_that_do_not_fit_the_problems_are_refused(overrides, about):
    with refused(*about):
        Experiment.of(request_for(overrides=overrides))
    with refused("problem_choice", "--problems=tiny_algo"):  # where there is one problem
        check_mixture(transformer_tiny().replace(problem_choice="size"), ["tiny_algo"])


@pytest.mark.parametrize(("problem", "hparams_set", "overrides", "asked"), [
    ("image_mnist_gen", "imagetransformer_base", "", "img_len=28,num_channels=1"),
    ("image_cifar10_plain_gen", "imagetransformer_mnist", "num_channels=3", "img_len=32,num_channels=3"),
    ("video_moving_mnist_next", "imagetransformer_tiny", "img_len=28", "img_len=28,num_channels=1"),
])  # fmt: skip
def test_an_image_transformer_has_the_size_of_the_images(problem, hparams_set, overrides, asked):
    def named(overrides):
        return RunConfig(problem=problem, model="image_transformer", hparams_set=hparams_set, hparams=overrides)

    with refused(problem, f"--hparams={asked}"):
        Experiment.of(named(overrides))
    Experiment.of(named(asked))


# === The output of `--registry_help` ===
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
    assert re.search(r"_rev.*_masked +.*transformer_mlm$", listing, re.M), "the last of the problems are the variants"
    listed = names_in(registry_listing("babi"))  # each name that contains a text
    assert set(BABI) < set(listed)
    assert all("babi" in name for name in listed)


def test_families_of_names_and_the_fields_of_all_sets_or_of_one_are_listed():
    with registered(PROBLEMS, "a_family_5_of_007_x", PROBLEMS.get("tiny_algo")), PROBLEMS.open():
        for number in (9, 10, 11, 12, 100, 2, 3):
            PROBLEMS.alias(f"a_family_{number}_of_007_x", "tiny_algo")
        listing = registry_listing()
    assert "  a_family_{2,3,5,9,10,11,12,100}_of_007_x  " in listing
    wanted = {field for entry in HPARAMS.entries() for field, _ in get_hparams(entry.name).items()}
    assert set(fields_in(registry_listing("hparams"))) == wanted
    listing = registry_listing("lstm_moe_2048")  # the name of a set
    assert fields_in(listing) == [field for field, _ in get_hparams("lstm_moe_2048").items()]
    assert "\n  expert_groups=16  Number of groups" in listing


def fields_in(listing):
    return re.findall(r"^  ([a-z_0-9]+)=", listing, re.M)
