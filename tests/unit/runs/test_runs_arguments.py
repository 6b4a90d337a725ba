"""Arguments of the Python functions: misspelt names, wrong types, and errors that name arguments, not flags."""

import ast
import inspect
import pickle
import re

import numpy as np
import pytest

import t2t
from t2t.errors import ArgumentError, UserError
from t2t.registry import PROBLEMS
from t2t.runs.arguments import FUNCTIONS, RENAMED, PythonDoor, as_overrides
from tests.errors import refused
from tests.readme import ROOT

COMMANDS_ALONE = {
    "checkpoints", "compare_engine", "constraints_file", "decode_from_file", "decode_to_file", "decode_window",
    "dry_run", "exclude_problems", "from", "generate_data", "merge", "model_dir", "n", "num_concurrent_processes",
    "output_format", "plot", "registry_help", "schedule", "sentencepiece_model", "shard", "shared_vocab_file", "step",
    "t2t_dir", "target_prefix_file", "target_space_id", "track", "train_language", "unknown_dictionary", "zoo_dir",
}  # fmt: skip
"""Flags that are not arguments of any function, including flags of commands without a function."""
NAMES = ("translate_ende_numbers", "transformer", "transformer_tiny")


@pytest.mark.parametrize(("call", "about"), [
    (lambda: t2t.train(*NAMES, evl_steps=3), "t2t.train 'evl_steps' eval_steps"),
    (lambda: t2t.train(*NAMES, eval_every=3), "local_eval_frequency"),
    (lambda: t2t.train(*NAMES, batch_size=3), "'batch_size' hparams={'batch_size':"),
    (lambda: t2t.train(*NAMES, lr=3), "'lr' hparams={'learning_rate':"),
    (lambda: t2t.train(*NAMES, vocab_size=3), "problem_options={'vocab_size':"),
    (lambda: t2t.load("x", chekpoint=3), "t2t.load 'chekpoint' checkpoint?"),
    (lambda: t2t.load(), "t2t.load 'output_dir' checkpoint"),
    (lambda: t2t.export_model("x", "y", fromat="onnx"), "t2t.export_model 'fromat' format?"),
    (lambda: t2t.registered(kid="model"), "t2t.registered 'kid' kind?"),
    (lambda: t2t.generate_data(NAMES[0], vocb_size=9), "'vocb_size' vocab_size"),
    (lambda: t2t.generate_data(NAMES[0], data_dri="x"), "'data_dri' data_dir"),
])  # fmt: skip
def test_a_misspelt_argument_is_one_line_with_the_nearest(call, about):
    with refused(*about.split(), by=t2t.ArgumentError) as error:
        call()
    assert isinstance(error.value, TypeError | LookupError)
    assert isinstance(error.value, UserError)


@pytest.mark.parametrize(("call", "about"), [
    (lambda: t2t.load(5), "output_dir=5 pathlib.Path"),
    (lambda: t2t.load(b"run"), "output_dir=b'run'"),
    (lambda: t2t.load("a\0b"), "output_dir="),
    (lambda: t2t.load(""), "output_dir"),
    (lambda: t2t.load("~nobody_at_all/run"), "output_dir='~nobody_at_all/run'"),
    (lambda: t2t.load("x", checkpoint=True), "checkpoint=True"),
    (lambda: t2t.registered(["model"]), "kind=['model'] list"),
    (lambda: t2t.registered("model", 3), "containing=3 int"),
    (lambda: t2t.generate_data(["a", "b"]), "problem=['a', 'b'] list"),
    (lambda: t2t.generate_data(NAMES[0], random_seed="1"), "random_seed='1' 0"),
    (lambda: t2t.train(*NAMES, train_steps=1.5), "train_steps=1.5 0"),
    (lambda: t2t.train(*NAMES, train_steps=True), "train_steps=True"),
    (lambda: t2t.train(*NAMES, warm_start_from=3), "warm_start_from=3 pathlib"),
    (lambda: t2t.train(*NAMES, problem_options="x"), "problem_options='x' dict"),
    (lambda: t2t.train(*NAMES, hparams=["x"]), "hparams=['x'] dict"),
    (lambda: t2t.train(*NAMES, hparams={"hidden_size": None}), "hidden_size=None NoneType"),
    (lambda: t2t.train(*NAMES, hparams={"frozen_weights": "a,'\""}), "frozen_weights= str"),
    (lambda: t2t.train(*NAMES, hparams={3: 4}), "hparams: 3"),
    (lambda: t2t.export_model("x", "y", n_best=0), "n_best=0 1"),
    (lambda: t2t.export_model("x", ""), "export_dir"),
])  # fmt: skip
def test_an_argument_of_another_type_is_one_line(call, about):
    with refused(*about.split(), by=ArgumentError) as error:
        call()
    assert isinstance(error.value, TypeError)
    assert isinstance(error.value, ValueError)


def test_hparams_may_be_a_dict():
    given = {
        "batch_size": 512, "dropout": 0.1, "learning_rate": 1e-05, "share": True, "name": "linear",
        "weights": (1, 2.5), "count": np.int64(3),
    }  # fmt: skip
    wanted = "batch_size=512,dropout=0.1,learning_rate=1e-05,share=True,name=linear,weights=[1,2.5],count=3"
    assert as_overrides(given) == wanted
    assert as_overrides("a=1") == "a=1"
    assert as_overrides(None) == as_overrides({}) == ""


@pytest.mark.parametrize(("text", "wanted"), [
    ("correct --data_dir or its permissions", "correct data_dir= or its permissions"),
    ("resume it or use another --output_dir", "resume it or use another output_dir="),
    ("--problems names several", "problem= names several"),
    ("put files into --tmp_dir/images; name --train_source=FILE",
     "put files into tmp_dir/images; name train_source=FILE"),
    ("make it with t2t-datagen --problem=a --data_dir=d, or by t2t-trainer --generate_data",
     "make it with t2t.generate_data(problem='a', data_dir='d'), or by t2t-trainer --generate_data"),
    ("train one with t2t-trainer --output_dir=r", "train one with t2t.train(output_dir='r')"),
    ("list them with --registry_help", "list them with t2t.registered"),
    ("list them with --registry_help=hparams", "list them with t2t-trainer --registry_help=hparams"),
    ("a file named /x/--data_dir and --decode_to_file", "a file named /x/--data_dir and --decode_to_file"),
])  # fmt: skip
def test_texts_of_errors_mention_arguments_instead_of_flags(text, wanted):
    assert PythonDoor(frozenset()).spell(text) == wanted


@pytest.mark.parametrize(("about", "command", "python"), [
    ({"option": "random_seed", "value": 3}, "--random_seed=3: wrong", "random_seed=3: wrong"),
    ({"option": "problems"}, "--problems: wrong", "problem: wrong"),
    ({"option": "decode_beam_size", "value": 0}, "--decode_beam_size=0: wrong", "beam_size=0: wrong"),
    ({"option": "studio", "value": True}, "--studio=True: wrong", "--studio=True: wrong"),
    ({"hparam": "dropout", "value": 2}, "hparam dropout=2: wrong", "hparam dropout=2: wrong"),
    ({"option": "data_dir", "value": "a --problem=b"}, "--data_dir='a --problem=b': wrong",
     "data_dir='a --problem=b': wrong"),
    ({}, "wrong", "wrong"),
])  # fmt: skip
def test_each_door_writes_what_an_error_is_about(about, command, python):
    error = UserError("wrong", "use another --output_dir", **about)
    assert str(error) == f"{command}; use another --output_dir"
    error.door = PythonDoor(frozenset())
    assert str(error) == f"{python}; use another output_dir="
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # errors of processes arrive as they were


def test_errors_of_the_functions_name_arguments(tmp_path):
    with refused("model=", "hparams_set=", "t2t.registered"):
        t2t.train("translate_ende_numbers")
    with refused("t2t.registered", "t2t_usr_dir="):
        t2t.generate_data("translate_ende_numbrs")
    for path in (tmp_path, str(tmp_path)):
        with refused(tmp_path, f"t2t.train(output_dir='{tmp_path}')"):
            t2t.load(path)
    with refused("t2t_usr_dir=nowhere"):
        t2t.registered(t2t_usr_dir="nowhere")
    names = "translate_ende_numbers-translate_ende_multi30k"
    with refused("subword_sampling=0.1", "t2t.train"):  # an option of training, for one of several problems
        t2t.generate_data(names, tmp_path / "d", **{"translate_ende_multi30k.subword_sampling": 0.1})
    assert not (tmp_path / "d").exists()


def flags_in_errors():
    """Yields (where, flag) of every flag in the text of an error outside the commands."""
    for path in sorted((ROOT / "t2t").rglob("*.py")):
        if path.parent.name in ("cli", "serving", "studio"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                mentioned = re.findall(r"--([a-z]\w*)", ast.unparse(node.exc))
                about = re.findall(r"^UserError.*\boption='(\w+)'", ast.unparse(node.exc))
                for name in mentioned + about:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", name


def test_every_flag_in_an_error_is_an_argument_or_of_commands_alone():
    assert t2t.tune  # its arguments are known once it is imported
    found = list(flags_in_errors())
    assert len(found) > 50
    for where, flag in found:
        assert flag in COMMANDS_ALONE or PythonDoor(frozenset()).spell(f"--{flag}") != f"--{flag}", where


def test_functions_keep_signature_and_documentation():
    assert list(inspect.signature(t2t.load).parameters) == [
        "output_dir", "checkpoint", "t2t_usr_dir", "problem", "worker_gpu", "worker_cpu", "weight_shards", "engine",
        "compute_type", "ensemble_average", "source_language", "target_language", "adapters",
    ]  # fmt: skip
    assert t2t.load.__doc__.startswith("Loads a run directory")
    assert t2t.load.__name__ == "load"


def test_short_imports_are_those_that_type_checkers_see():
    tree = ast.parse((ROOT / "t2t/__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert all(alias.asname == alias.name for node in block.body for alias in node.names)
    assert seen == t2t._MODULE_OF
    assert {*seen, "load", "train"} <= {*dir(t2t)} & {*t2t.__all__}


def test_short_imports_give_what_the_long_ones_do():
    from t2t.hparams.base import HParams
    from t2t.models.base import SequenceModel
    from t2t.problems.text_problems import Text2Text

    assert (t2t.HParams, t2t.SequenceModel, t2t.Text2Text) == (HParams, SequenceModel, Text2Text)
    assert t2t.register_problem == PROBLEMS.register
    assert issubclass(t2t.TreeConstraint, t2t.OutputConstraint)
    assert isinstance(t2t.answers_constraint([[3]]), t2t.FiniteConstraint)
    assert all(getattr(t2t, name) is not None for name in t2t.__all__)
    with refused("'t2t'", "'lod'", by=AttributeError):
        t2t.lod  # noqa: B018


def test_the_page_on_python_lists_all_functions_and_renamed_arguments():
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `--(\w+)` \| `(\w+)`", text, re.M)) == RENAMED
    functions = re.findall(r"^\| `(t2t\.\w+)\(.*?\)` \| `(t2t-\w+)", text, re.M)
    assert {command: name for name, command in functions if name != "t2t.registered"} == FUNCTIONS
