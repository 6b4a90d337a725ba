"""`python -m tests.mutation`: its table matches the code, and test results are read correctly; run by hand in full."""

import ast
import functools

import pytest

from tests.mutation.mutation import ROOT, Mutation, NotApplicableError, all_packages
from tests.mutation.report import Result, Verdict, summary
from tests.mutation.table import MOST_SURVIVORS, MUTATIONS
from tests.mutation.trial import PytestRun, read_run, results


def test_every_mutation_fits_the_code():
    for mutation in MUTATIONS:
        mutation.broken_source()  # raises if the text is gone or the result is not valid Python


def test_every_package_has_a_mutation():
    assert len(MUTATIONS) >= 30
    assert {mutation.package for mutation in MUTATIONS} == all_packages()
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert sum(bool(mutation.survives) for mutation in MUTATIONS) <= MOST_SURVIVORS


@functools.cache
def functions_in(path):
    functions = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    return {node.name: node for node in functions if isinstance(node, ast.FunctionDef)}


def test_every_mutation_names_default_tests():
    for mutation in MUTATIONS:
        assert mutation.tests, mutation.name
        for path, _, test in (one.partition("::") for one in mutation.tests):
            found = functions_in(path)
            assert not test or test in found, f"{mutation.name}: {path} has no {test}"
            marks = [ast.unparse(mark) for mark in found[test].decorator_list] if test else []
            assert not {"pytest.mark.slow", "pytest.mark.exhaustive"} & {*marks}, f"{mutation.name}: {test} is slow"


def example(**changes):
    fields = {
        "name": "sign", "file": "t2t/sum.py", "original": "a + b", "broken": "a - b", "breaks": "Sums are differences.",
        "tests": ("test_sum.py",),
    }  # fmt: skip
    return Mutation(**fields | changes)


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "t2t").mkdir()
    (tmp_path / "t2t" / "__init__.py").touch()  # else an installed t2t would be imported
    (tmp_path / "t2t" / "sum.py").write_text("def total(a, b):\n    return a + b\n")
    (tmp_path / "test_sum.py").write_text(
        "from t2t.sum import total\n\n\ndef test_total():\n    assert total(2, 3) == 5\n\n\n"
        "def test_zero():\n    assert total(2, 0) == 2\n"
    )
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
        example(name="unnoticed", tests=("test_sum.py::test_zero",)),
        example(name="not imported", original="def total", broken="def sum_of"),
        example(name="gone", original="a * b"),
        example(name="other machine", tests=("test_none.py",)),
    ]
    before = (copy / "t2t" / "sum.py").read_text()
    found = list(results(copy, mutations, timeout=100.0))
    assert [(result.verdict, result.reason) for result in found] == [
        (Verdict.CAUGHT, "test_sum.py::test_total"),
        (Verdict.SURVIVED, ""),
        (Verdict.NOT_APPLICABLE, "test_sum.py could not run"),
        (Verdict.NOT_APPLICABLE, "the original text occurs 0 times in t2t/sum.py"),
        (Verdict.NOT_APPLICABLE, "without the break: pytest ended with status 4"),
    ]
    assert (copy / "t2t" / "sum.py").read_text() == before
    assert summary(found) == "1 of 5 mutations caught; not as expected: unnoticed, not imported, gone, other machine"


def test_a_run_is_read_from_the_short_summary():
    output = "F.E\nERROR tests/a.py\nFAILED tests/b.py::test_c[1-x] - assert 1 == 2\nERROR tests/d.py::test_e\n1 failed"
    assert read_run(1, output) == PytestRun(1, ("tests/b.py::test_c[1-x]",), ("tests/a.py", "tests/d.py::test_e"))
    assert read_run(1, output).verdict() == (Verdict.CAUGHT, "tests/b.py::test_c[1-x]")
    assert PytestRun(None).verdict() == (Verdict.HUNG, "ran out of time")
    assert PytestRun(0).verdict() == (Verdict.SURVIVED, "")


def test_what_is_expected_of_a_result():
    assert Result(example(), Verdict.CAUGHT).is_expected
    assert not Result(example(), Verdict.HUNG).is_expected
    assert Result(example(hangs=True), Verdict.HUNG).is_caught
    assert not Result(example(), Verdict.SURVIVED).is_expected
    assert Result(example(survives="no way to see it"), Verdict.SURVIVED).is_expected
    assert str(Result(example(), Verdict.CAUGHT, "tests/a.py::test_b", 12.3)).split() == [
        "sign", "t2t", "caught", "12", "tests/a.py::test_b",
    ]  # fmt: skip
