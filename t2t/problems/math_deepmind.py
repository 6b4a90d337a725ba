"""School mathematics in questions and answers.

One instance:
    inputs   Solve -42*r + 27*c = -1167 and 130*r + 4*c = 372 for r.
    targets  4

Questions of 56 kinds; train: about two million of each kind, in three folders by difficulty; dev: questions of the same
kinds, and harder ones than those of the training data.
Source: Saxton et al. 2019, "Analysing mathematical reasoning abilities of neural models" (arXiv:1904.01557), its own
files (`mathematics_dataset-v1.0.tar.gz`, https://github.com/google-deepmind/mathematics_dataset). Licence: Apache 2.0.
"""

from collections.abc import Iterator
from pathlib import Path

from t2t.errors import UserError
from t2t.files.lines import read_lines
from t2t.problems.base import Sample, Source
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs.constants import DEV, INPUTS, TARGETS, TRAIN

_FOLDERS = {TRAIN: ("train-easy", "train-medium", "train-hard"), DEV: ("interpolate", "extrapolate")}


@register_problem("algorithmic_math_deepmind_all")
class AlgorithmicMathDeepmindAll(Text2Text):
    """School mathematics (Mathematics Dataset, 112 million questions, bytes)."""

    vocab_kind = "byte"
    folder = "mathematics_dataset-v1.0"
    metrics = ("accuracy_per_sequence", "accuracy")

    def shards(self, split: str, source: Source) -> int:
        """Returns the number of files of a split."""
        return len(self._files(split, source))

    def generate_samples(self, split: str, source: Source) -> Iterator[Sample]:
        """Yields the questions of a split, or of one of its files."""
        files = self._files(split, source)
        for path in files[source.shard : source.shard + 1] if source.shards > 1 else files:
            lines = [line.strip() for line in read_lines(path, source.tally)]
            if len(lines) % 2:
                raise UserError(f"{path}: {len(lines):,} lines; questions and answers take turns; unpack it again")
            yield from ({INPUTS: lines[i], TARGETS: lines[i + 1]} for i in range(0, len(lines), 2))

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist."""
        root = Path(tmp_dir) / self.folder
        found = [path for names in _FOLDERS.values() for name in names for path in sorted((root / name).glob("*.txt"))]
        return super().raw_files(tmp_dir) | {path.relative_to(root).as_posix(): path for path in found}

    def requirements(self) -> str:
        """Returns which folder is looked for."""
        return f"{self.folder} in --tmp_dir, with the folders {', '.join(_FOLDERS[TRAIN] + _FOLDERS[DEV])}"

    def _files(self, split: str, source: Source) -> list[Path]:
        self.check_split(split)
        root = Path(source.tmp_dir) / self.folder
        found = [path for name in _FOLDERS[split] for path in sorted((root / name).glob("*.txt"))]
        if not found:
            raise UserError(
                f"{self.name}: {root} has no {', '.join(_FOLDERS[split])} with files *.txt; unpack "
                f"{self.folder}.tar.gz in {source.tmp_dir}"
            )
        return found
