"""Requests for several problems at once, by name."""

import pytest

from t2t.cli import trainer
from t2t.errors import UnknownNameError
from t2t.hparams.transformer import transformer_tiny
from t2t.runs.names import Request, canonical, check_mixture, check_names, flag_options, split_request
from t2t.tuning import api
from tests.errors import refused

BOTH = "tiny_algo-algorithmic_reverse_binary40_test"


def request(problem=BOTH, overrides="", **options):
    return Request(
        problem=problem, model="transformer", hparams_set="transformer_tiny", overrides=overrides,
        problem_options=options,
    )  # fmt: skip


def test_each_problem_gets_the_options_that_are_for_it():
    asked = request("text2text_files-tiny_algo", train_source="/a", **{"tiny_algo.vocab_kind": "byte"}, vocab_size=9)
    files, algo = split_request(asked)
    assert files.problem_options == {"train_source": "/a", "vocab_size": 9}
    assert algo.problem_options == {"vocab_kind": "byte", "vocab_size": 9}
    assert (files.problem, algo.problem) == ("text2text_files", "tiny_algo")
    alone = request("tiny_algo", vocab_kind="byte")
    assert split_request(alone) == [alone]


def test_flags_give_all_problems_the_same_options():
    """Records of runs name each problem; `changed` leaves out what is a problem's default."""
    problem = "text2text_files-tiny_algo"
    files = {f"{split}_{side}": f"/{split}.{side}" for split in ("train", "dev") for side in ("source", "target")}
    of_files = {f"text2text_files.{name}": value for name, value in {**files, "vocab_size": 9}.items()}
    assert flag_options(request(problem, **of_files, **{"tiny_algo.vocab_size": 9})) == {**files, "vocab_size": 9}
    assert flag_options(request(problem, **of_files, vocab_size=8)) == {**files, "vocab_size": 8}
    assert flag_options(request(BOTH, vocab_size=9)) == {"vocab_size": 9}
    assert flag_options(request("tiny_algo", vocab_size=9)) == {"vocab_size": 9}
    assert flag_options(request(BOTH)) == {}
    for other in ({"tiny_algo.vocab_size": 8}, {}):
        with refused("text2text_files.vocab_size=9", "tiny_algo.vocab_size="):
            flag_options(request(problem, **of_files, **other))


def test_trials_get_options_as_flags():
    given = api._arguments(request(**{f"{name}.vocab_size": 9 for name in BOTH.split("-")}), {"eval_every": 5})
    values = trainer.build_flags()
    values(["t2t-trainer", *given])
    assert (values.problem, values.vocab_size, values.local_eval_frequency) == (BOTH, 9, 5)


def test_an_option_that_no_problem_has_is_refused():
    with refused("--train_trees", *BOTH.split("-")):
        split_request(request(train_trees="/a"))


def test_names_of_mixtures_are_made_their_own():
    assert canonical("problem", BOTH + "_rev_copy") == BOTH + "_rev_copy"
    with refused("tiny_algo"):
        canonical("problem", "tiny_algo-tiny_algo")


def test_names_are_checked_one_by_one():
    check_names(request())
    with refused("'tiny_alga'", "tiny_algo", by=UnknownNameError):
        check_names(request("algorithmic_reverse_binary40_test-tiny_alga"))


@pytest.mark.parametrize(("overrides", "about"), [
    ("problem_choice=weights,problem_weights=[1,2,3]", ["problem_weights=[1.0,", "--problems=", 2]),
    ("problem_batch_sizes=[8,-1]", ["problem_batch_sizes=[8,", "--problems=", 2]),
    ("problem_choice=weights,problem_weights=[0,0]", ["problem_weights=[0.0,"]),
    ("problem_weights=[1,2]", ["problem_weights", "problem_choice=uniform", "problem_choice=weights"]),
])  # fmt: skip
def test_hparams_that_do_not_fit_the_problems_are_refused(overrides, about):
    with refused(*about):
        check_names(request(overrides=overrides))


def test_hparams_of_mixtures_are_refused_where_there_is_one_problem():
    with refused("problem_choice", "--problems=tiny_algo"):
        check_mixture(transformer_tiny().replace(problem_choice="size"), ["tiny_algo"])


@pytest.mark.parametrize(("problem", "hparams_set", "overrides", "asked"), [
    ("image_mnist_gen", "imagetransformer_base", "", "img_len=28,num_channels=1"),
    ("image_cifar10_plain_gen", "imagetransformer_mnist", "num_channels=3", "img_len=32,num_channels=3"),
    ("video_moving_mnist_next", "imagetransformer_tiny", "img_len=28", "img_len=28,num_channels=1"),
])  # fmt: skip
def test_an_image_transformer_has_the_size_of_the_images(problem, hparams_set, overrides, asked):
    def named(overrides):
        return Request(problem=problem, model="image_transformer", hparams_set=hparams_set, overrides=overrides)

    with refused(problem, f"--hparams={asked}"):
        check_names(named(overrides))
    check_names(named(asked))
