"""Formulas: solved for a letter, simplified, integrated.

    algorithmic_algebra_inverse     inputs "x : a + x = b"    targets "b - a"
    algorithmic_algebra_simplify    inputs "a * b / a + c"    targets "b + c"
    algorithmic_calculus_integrate  inputs "x : a * x"        targets "a * x ** 2 / 2"

Formulas are drawn as trees of letters and the four operations, at most two operations deep, as in Tensor2Tensor's
problems of these names; every symbol is a word of the vocabulary. Simplified formulas and integrals are computed by
SymPy (Meurer et al. 2017, "SymPy: symbolic computing in Python"); if a result needs functions other than the logarithm,
another formula is drawn. No dev task is a training task. The samples are generated at random, so no licence is needed.

School mathematics in questions and answers.

One instance:
    inputs   Solve -42*r + 27*c = -1167 and 130*r + 4*c = 372 for r.
    targets  4

Questions of 56 kinds; train: about two million of each kind, in three folders by difficulty; dev: questions of the same
kinds, and harder ones than those of the training data.
Source: Saxton et al. 2019, "Analysing mathematical reasoning abilities of neural models" (arXiv:1904.01557), its own
files (`mathematics_dataset-v1.0.tar.gz`, https://github.com/google-deepmind/mathematics_dataset). Licence: Apache 2.0.
"""

import dataclasses
import random
import re
import string
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from t2t.errors import UserError, needs_extra
from t2t.files.lines import read_lines
from t2t.problems.base import GenerationContext, Sample
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TRAIN

LETTERS = tuple(string.ascii_lowercase)
_OPERATIONS = ("+", "-", "*", "/")
_FORMULA = (*LETTERS, *_OPERATIONS, "(", ")")
_RESULT = (*_FORMULA, *string.digits, "**", "log")
_SYMBOL = re.compile(r"[a-z]+|[0-9]|\*\*|\S")
_UNDONE_BY = {"+": "-", "-": "+", "*": "/", "/": "*"}
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}


@dataclasses.dataclass(frozen=True)
class Formula:
    """A letter, or two formulas and the operation between them."""

    head: str
    sides: "tuple[Formula, Formula] | None" = None

    def symbols(self) -> list[str]:
        """Returns the symbols of the formula, with only the necessary parentheses."""
        if self.sides is None:
            return [self.head]
        left, right = self.sides
        return [*self._side(left, 0), self.head, *self._side(right, int(self.head in "-/"))]

    def letters(self) -> list[str]:
        """Returns the letters from left to right."""
        return [symbol for symbol in self.symbols() if symbol in LETTERS]

    def solve_for(self, letter: str, value: "Formula") -> "Formula":
        """Solves formula = `value` for a letter that occurs once in the formula."""
        if self.sides is None:
            return value
        left, right = self.sides
        if letter in left.letters():
            return left.solve_for(letter, Formula(_UNDONE_BY[self.head], (value, right)))
        if self.head in "-/":  # a - x = v: x is a - v
            return right.solve_for(letter, Formula(self.head, (left, value)))
        return right.solve_for(letter, Formula(_UNDONE_BY[self.head], (value, left)))

    def _side(self, side: "Formula", more: int) -> list[str]:
        needed = _BINDS.get(side.head, 3) < _BINDS[self.head] + more
        return ["(", *side.symbols(), ")"] if needed else side.symbols()


@dataclasses.dataclass(frozen=True)
class Task:
    """The inputs of an example."""

    text: str
    letter: str
    formula: Formula
    value: Formula | None = None
    """The other side of the equation, if the task is one."""


def split_of(task: str) -> str:
    """Returns the only split in which a task may occur, by its hash; 5 % of all tasks are for dev."""
    return TRAIN if zlib.crc32(task.encode()) % 20 else DEV


class FormulaProblem(Text2Text):
    """Base class of problems with formulas."""

    metrics = ("accuracy_per_sequence", "accuracy")
    max_length = 256
    depth = 2
    """Most operations above a letter in the tree of a formula."""
    train_size = 10_000
    dev_size = 1_000

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields tasks that belong to the split, and their answers."""
        for _ in range(self.train_size if split == TRAIN else self.dev_size):
            answer = None
            while not answer:
                task = self.draw(context.rng)
                answer = self.solve(task) if split_of(task.text) == split else None
            yield {INPUTS: task.text, TARGETS: " ".join(answer)}

    @abstractmethod
    def draw(self, rng: random.Random) -> Task:
        """Returns a task."""

    @abstractmethod
    def solve(self, task: Task) -> list[str]:
        """Returns the symbols of the answer; empty if it cannot be written with the vocabulary."""

    def formula(self, rng: random.Random, letters: Iterator[str]) -> Formula:
        """Draws a formula from the next letters; all depths are equally likely."""
        return self._tree(rng, letters, rng.randint(0, self.depth))

    def _tree(self, rng: random.Random, letters: Iterator[str], depth: int) -> Formula:
        if not depth:
            return Formula(next(letters))
        depths = [depth - 1, rng.randint(0, depth - 1)]
        rng.shuffle(depths)
        left, right = (self._tree(rng, letters, side) for side in depths)
        return Formula(rng.choice(_OPERATIONS), (left, right))


@register_problem("algorithmic_algebra_inverse")
class AlgorithmicAlgebraInverse(FormulaProblem):
    """Solve an equation for a letter that occurs once: `x : a + x = b` -> `b - a`."""

    vocabulary = (*_FORMULA, ":", "=")

    def draw(self, rng: random.Random) -> Task:
        """Returns a letter and an equation in which no letter occurs twice."""
        letters = iter(rng.sample(LETTERS, len(LETTERS)))
        left, right = self.formula(rng, letters), self.formula(rng, letters)
        task_text = rng.choice(left.letters() + right.letters())
        text = " ".join([task_text, ":", *left.symbols(), "=", *right.symbols()])
        return Task(text, task_text, left, right) if task_text in left.letters() else Task(text, task_text, right, left)

    def solve(self, task: Task) -> list[str]:
        """Returns the value of the letter."""
        assert task.value is not None, "an equation has two sides"
        return task.formula.solve_for(task.letter, task.value).symbols()


class SymbolicProblem(FormulaProblem):
    """Formulas with answers from SymPy; letters may occur several times."""

    alphabet = 4
    """Number of letters in a formula's alphabet: few, so that letters repeat and most formulas can be simplified."""

    def draw(self, rng: random.Random) -> Task:
        """Returns a formula and one of its letters."""
        letters = rng.sample(LETTERS, self.alphabet)
        formula = self.formula(rng, iter(lambda: rng.choice(letters), None))
        return Task(self.task_text(letters[0], formula), letters[0], formula)

    def solve(self, task: Task) -> list[str]:
        """Returns SymPy's answer; empty if it has symbols outside the vocabulary, as after a division by 0."""
        sympy = _sympy(self.name)
        # Symbols are passed explicitly so that no letter is taken for a name of SymPy.
        names = {letter: sympy.Symbol(letter) for letter in (task.letter, *task.formula.letters())}
        formula = sympy.sympify("".join(task.formula.symbols()), locals=names)
        written = _SYMBOL.findall(str(self.answer(sympy, formula, names[task.letter])))
        return written if set(written) <= set(_RESULT) else []

    @abstractmethod
    def task_text(self, letter: str, formula: Formula) -> str:
        """Returns the text of a task."""

    @abstractmethod
    def answer(self, sympy: Any, formula: Any, letter: Any) -> Any:
        """Returns SymPy's answer."""


@register_problem("algorithmic_algebra_simplify")
class AlgorithmicAlgebraSimplify(SymbolicProblem):
    """Simplify a formula: `a * b / a + c` -> `b + c`."""

    vocabulary = _RESULT

    def answer(self, sympy: Any, formula: Any, letter: Any) -> Any:
        """Returns the formula as simplified by SymPy."""
        return sympy.simplify(formula)

    def task_text(self, letter: str, formula: Formula) -> str:
        """Returns the formula."""
        return " ".join(formula.symbols())


@register_problem("algorithmic_calculus_integrate")
class AlgorithmicCalculusIntegrate(SymbolicProblem):
    """Integrate a formula by a letter: `x : a * x` -> `a * x ** 2 / 2`."""

    vocabulary = (*_RESULT, ":")

    def answer(self, sympy: Any, formula: Any, letter: Any) -> Any:
        """Returns the indefinite integral without its constant."""
        return sympy.integrate(formula, letter)

    def task_text(self, letter: str, formula: Formula) -> str:
        """Returns the letter and the formula."""
        return " ".join([letter, ":", *formula.symbols()])


def _sympy(problem: str) -> Any:
    with needs_extra("algebra", problem):
        import sympy
    return sympy


_FOLDERS = {TRAIN: ("train-easy", "train-medium", "train-hard"), DEV: ("interpolate", "extrapolate")}


@register_problem("algorithmic_math_deepmind_all")
class AlgorithmicMathDeepmindAll(Text2Text):
    """School mathematics (Mathematics Dataset, 112 million questions, bytes)."""

    vocab_kind = "byte"
    folder = "mathematics_dataset-v1.0"
    metrics = ("accuracy_per_sequence", "accuracy")

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of files of a split."""
        return len(self._files(split, context))

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the questions of a split, or of one of its files."""
        files = self._files(split, context)
        for path in files[context.shard : context.shard + 1] if context.shards > 1 else files:
            lines = [line.strip() for line in read_lines(path, context.tally)]
            if len(lines) % 2:
                raise UserError(f"{path}: {len(lines):,} lines; questions and answers take turns", "unpack it again")
            yield from ({INPUTS: lines[i], TARGETS: lines[i + 1]} for i in range(0, len(lines), 2))

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist."""
        root = Path(tmp_dir) / self.folder
        found = [path for names in _FOLDERS.values() for name in names for path in sorted((root / name).glob("*.txt"))]
        return super().raw_files(tmp_dir) | {path.relative_to(root).as_posix(): path for path in found}

    def requirements(self) -> str:
        """Returns which folder is looked for."""
        return f"{self.folder} in --tmp_dir, with the folders {', '.join(_FOLDERS[TRAIN] + _FOLDERS[DEV])}"

    def _files(self, split: str, context: GenerationContext) -> list[Path]:
        self.check_split(split)
        root = Path(context.tmp_dir) / self.folder
        found = [path for name in _FOLDERS[split] for path in sorted((root / name).glob("*.txt"))]
        if not found:
            raise UserError(
                f"{self.name}: {root} has no {', '.join(_FOLDERS[split])} with files *.txt",
                f"unpack {self.folder}.tar.gz in {context.tmp_dir}",
            )
        return found
