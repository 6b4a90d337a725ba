"""Algebra problems, checked numerically: inputs and targets are evaluated with values for the letters."""

import math
import random
import string
import sys
from fractions import Fraction

import pytest

from t2t.errors import UserError
from t2t.runs.names import get_problem

NAMES = ("algorithmic_algebra_inverse", "algorithmic_algebra_simplify", "algorithmic_calculus_integrate")


@pytest.fixture
def few(drawn, monkeypatch):
    """Draws a hundred samples."""

    def draw(name):
        monkeypatch.setattr(type(get_problem(name)), "train_size", 100)
        return [(sample["inputs"], sample["targets"]) for sample in drawn(name, "train")]

    return draw


def value(text, letters):
    return eval(
        text, {"log": lambda x: math.log(abs(x)), "__builtins__": {}}, letters
    )  # of the problem's own vocabulary


def letters_of(seed, kind=float):
    rng = random.Random(seed)
    return {letter: kind(rng.randint(2, 10**6)) / 997 for letter in string.ascii_lowercase}


def test_the_equation_holds_with_the_answer_in_the_letters_place(few):
    depths = set()
    for task, answer in few("algorithmic_algebra_inverse"):
        asked, equation = task.split(" : ")
        left, right = equation.split(" = ")
        letters = letters_of(1, Fraction)
        letters[asked] = value(answer, letters)
        assert value(left, letters) == value(right, letters)
        assert equation.split().count(asked) == 1
        depths.add(len(equation.split()))
    assert min(depths) == 3  # a = b
    assert max(depths) > 12


def test_what_is_simplified_has_the_same_value(few):
    shorter = 0
    for task, answer in few("algorithmic_algebra_simplify"):
        assert math.isclose(value(task, letters_of(2)), value(answer, letters_of(2)), rel_tol=1e-6)
        shorter += len(answer.split()) < len(task.split())
    assert shorter > 20


def test_the_slope_of_the_integral_is_the_formula(few):
    for task, answer in few("algorithmic_calculus_integrate"):
        letter, formula = task.split(" : ")
        letters = letters_of(3)
        step = 1e-4 * letters[letter]
        ends = [value(answer, letters | {letter: letters[letter] + sign * step}) for sign in (1, -1)]
        assert math.isclose((ends[0] - ends[1]) / (2 * step), value(formula, letters), rel_tol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_no_task_is_in_both_splits(drawn, monkeypatch, name):
    monkeypatch.setattr(type(get_problem(name)), "train_size", 300)
    monkeypatch.setattr(type(get_problem(name)), "dev_size", 50)
    train, dev = ({sample["inputs"] for sample in drawn(name, split)} for split in ("train", "dev"))
    assert not train & dev


@pytest.mark.parametrize("name", NAMES)
def test_every_symbol_is_in_the_vocabulary(few, name):
    known = set(get_problem(name).vocabulary)
    assert len(known) == len(get_problem(name).vocabulary)
    for task, answer in few(name):
        assert set(task.split()) | set(answer.split()) <= known


def test_without_sympy_the_package_is_named(drawn, monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(
        UserError, match=r"algorithmic_algebra_simplify: the package sympy is not installed; .*\[algebra\]"
    ):
        drawn("algorithmic_algebra_simplify", "train")
