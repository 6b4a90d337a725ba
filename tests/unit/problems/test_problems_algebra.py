"""Algebra problems, checked numerically: inputs and targets are evaluated with values for the letters."""

import functools
import math
import random
import string
import sys
from fractions import Fraction

import pytest

from t2t.problems.base import Source
from t2t.runs.names import get_problem
from tests.errors import refused

NAMES = ("algorithmic_algebra_inverse", "algorithmic_algebra_simplify", "algorithmic_calculus_integrate")


@functools.cache
def pairs(name, split="train", size=60):
    """Returns some tasks with their answers; SymPy takes its time for them."""
    problem = get_problem(name)
    problem.train_size = problem.dev_size = size
    samples = problem.generate_samples(split, Source(None, random.Random(0)))
    return [(sample["inputs"], sample["targets"]) for sample in samples]


def value(text, letters):
    """Evaluates a text, which is of the problem's own vocabulary."""
    return eval(text, {"log": lambda x: math.log(abs(x)), "__builtins__": {}}, letters)


def letters_of(seed, kind=float):
    rng = random.Random(seed)
    return {letter: kind(rng.randint(2, 10**6)) / 997 for letter in string.ascii_lowercase}


def test_the_equation_holds_with_the_answer_in_the_letters_place():
    depths = set()
    for task, answer in pairs("algorithmic_algebra_inverse"):
        asked, equation = task.split(" : ")
        left, right = equation.split(" = ")
        letters = letters_of(1, Fraction)
        letters[asked] = value(answer, letters)
        assert value(left, letters) == value(right, letters)
        assert equation.split().count(asked) == 1
        depths.add(len(equation.split()))
    assert min(depths) == 3  # a = b
    assert max(depths) > 12


def test_what_is_simplified_has_the_same_value():
    shorter = 0
    for task, answer in pairs("algorithmic_algebra_simplify"):
        assert math.isclose(value(task, letters_of(2)), value(answer, letters_of(2)), rel_tol=1e-6)
        shorter += len(answer.split()) < len(task.split())
    assert shorter > 6


def test_the_slope_of_the_integral_is_the_formula():
    for task, answer in pairs("algorithmic_calculus_integrate"):
        letter, formula = task.split(" : ")
        letters = letters_of(3)
        step = 1e-4 * letters[letter]
        ends = [value(answer, letters | {letter: letters[letter] + sign * step}) for sign in (1, -1)]
        assert math.isclose((ends[0] - ends[1]) / (2 * step), value(formula, letters), rel_tol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_no_task_is_in_both_splits_and_every_symbol_is_in_the_vocabulary(name):
    assert not {task for task, _ in pairs(name)} & {task for task, _ in pairs(name, "dev", 25)}
    known = get_problem(name).vocabulary
    assert len(known) == len(set(known))
    assert {symbol for pair in pairs(name) for text in pair for symbol in text.split()} <= set(known)


def test_without_sympy_the_package_is_named(drawn, monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with refused("algorithmic_algebra_simplify:", "sympy", "[algebra]"):
        drawn("algorithmic_algebra_simplify", "train")
