"""`python -m tests.mutation`: its table matches the code, and test results are read correctly; run by hand in full."""

import ast
import functools
import re

import pytest

from tests.mutation.mutation import ROOT, Mutation, NotApplicableError, all_packages
from tests.mutation.report import Result, Verdict, summary
from tests.mutation.table import MUTATIONS
from tests.mutation.trial import PytestRun, read_run, results


def test_every_mutation_fits_the_code_and_every_package_has_one():
    for mutation in MUTATIONS:
        mutation.broken_source()  # raises if the text is gone or the result is not valid Python
    assert {mutation.package for mutation in MUTATIONS} == all_packages()
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


@functools.cache
def statements_of(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8")).body


def test_every_mutation_names_default_tests():
    for mutation in MUTATIONS:
        for path, _, test in (one.partition("::") for one in mutation.tests_in()):
            statements = statements_of(path)
            found = {node.name: node for node in statements if isinstance(node, ast.FunctionDef)}
            assert not test or test in found, f"{mutation.name}: {path} has no {test}"
            of_file = [node.value for node in statements if ast.unparse(node).startswith("pytestmark = ")]
            marks = [ast.unparse(mark) for mark in (*of_file, *(found[test].decorator_list if test else []))]
            assert not any(re.match(r"\[?pytest\.mark\.(slow|exhaustive)", mark) for mark in marks), mutation.name


def example(**changes):
    fields = {"name": "sign", "file": "t2t/sum.py", "original": "a + b", "broken": "a - b", "tests": "test_sum"}
    return Mutation(breaks="Sums are differences.", **fields | changes)


@pytest.fixture
def copy(tmp_path):
    for folder in ("t2t", "tests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "t2t" / "__init__.py").touch()  # else an installed t2t would be imported
    (tmp_path / "t2t" / "sum.py").write_text("def total(a, b):\n    return a + b\n")
    (tmp_path / "tests" / "test_sum.py").write_text(
        "from t2t.sum import total\n\n\ndef test_total():\n    assert total(2, 3) == 5\n\n\n"
        "def test_zero():\n    assert total(2, 0) == 2\n"
    )
    (tmp_path / "tests" / "test_wrong.py").write_text("def test_wrong():\n    assert 1 + 1 == 3\n")
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"file": "t2t/gone.py"}, "there is no t2t/gone.py"),
        ({"original": "a * b"}, "the original text occurs 0 times in t2t/sum.py"),
        ({"original": "a"}, "the original text occurs 3 times in t2t/sum.py"),
        ({"broken": "a +"}, "t2t/sum.py would not be Python: line 2, "),
        ({"broken": "(a + b)"}, "the broken text means what the original means in t2t/sum.py"),
    ],
)
def test_a_mutation_that_does_not_fit_says_why(copy, changes, reason):
    with pytest.raises(NotApplicableError) as raised:
        example(**changes).broken_source(copy)
    assert str(raised.value).startswith(reason)


@pytest.mark.exhaustive  # that real runs of pytest lead to these verdicts
def test_verdicts_of_runs(copy):
    """Mutations that are caught, survive, break imports or do not match; the copy is unchanged afterwards."""
    mutations = [
        example(),
        example(name="unnoticed", tests="test_sum::test_zero"),
        example(name="not imported", original="def total", broken="def sum_of"),
        example(name="gone", original="a * b"),
        example(name="fails anyway", tests="test_wrong"),
    ]
    before = (copy / "t2t" / "sum.py").read_text()
    found = list(results(copy, mutations, timeout=100.0))
    assert [(result.verdict, result.reason) for result in found] == [
        (Verdict.CAUGHT, "tests/test_sum.py::test_total"),
        (Verdict.SURVIVED, ""),
        (Verdict.NOT_APPLICABLE, "tests/test_sum.py could not run"),
        (Verdict.NOT_APPLICABLE, "the original text occurs 0 times in t2t/sum.py"),
        (Verdict.NOT_APPLICABLE, "without the break: tests/test_wrong.py::test_wrong"),
    ]
    assert (copy / "t2t" / "sum.py").read_text() == before
    assert summary(found) == "1 of 5 mutations caught; not caught: unnoticed, not imported, gone, fails anyway"


def test_a_run_is_read_from_the_short_summary_and_a_result_is_a_line():
    output = "F.E\nERROR tests/a.py\nFAILED tests/b.py::test_c[1-x] - assert 1 == 2\nERROR tests/d.py::test_e\n1 failed"
    assert read_run(1, output) == PytestRun(1, ("tests/b.py::test_c[1-x]",), ("tests/a.py", "tests/d.py::test_e"))
    assert read_run(1, output).verdict() == (Verdict.CAUGHT, "tests/b.py::test_c[1-x]")
    assert PytestRun(None).verdict() == (Verdict.HUNG, "ran out of time")
    assert PytestRun(0).verdict() == (Verdict.SURVIVED, "")
    result = Result(example(), Verdict.CAUGHT, "tests/a.py::test_b", 12.3)
    assert str(result).split() == ["sign", "t2t", "caught", "12", "tests/a.py::test_b"]
