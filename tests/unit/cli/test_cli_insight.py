"""`t2t-insight`: examples of generated data that it has no use for."""

import pytest

from t2t.checkpoints.run_dir import RunDir
from t2t.checkpoints.run_record import RunRecord
from t2t.cli import insight
from t2t.data.generate import generate
from t2t.hparams.transformer import transformer_tiny
from t2t.registry import PROBLEMS
from t2t.runs.data import open_data
from t2t.runs.names import Request
from t2t.text.vocabulary_files import describe_encoders
from tests.errors import refused
from tests.letters import Letters, Moods
from tests.registrations import registered


class Said(Letters):
    """Letters to letters of no language."""

    name, vocabulary, target = "said", ("a", "b"), "b a"

    def generate_samples(self, split, source):
        yield {"inputs": "a b", "targets": self.target}


class Judged(Moods):
    """Letters to classes."""

    name, vocabulary, target = "judged", ("a", "b"), "good"
    generate_samples = Said.generate_samples


@pytest.mark.parametrize(
    ("kind", "language", "about"),
    [(Said, "de", ["--target_language=de:", "said"]), (Judged, "", ["judged:"])],
)
def test_examples_in_another_language_or_of_no_text(kind, language, about, tmp_path):
    values, folder = insight.build_flags(), tmp_path / "data"
    values(["t2t-insight", f"--data_dir={folder}", f"--target_language={language}"])
    generate(kind(), folder, tmp_path, seed=1, workers=1)
    with registered(PROBLEMS, kind.name, kind):
        problem = open_data(Request(problem=kind.name, data_dir=str(folder)), kind()).problem
        record = RunRecord(
            problem=kind.name, model="transformer", hparams_set="transformer_tiny", spec=problem.spec(),
            hparams=transformer_tiny().to_dict(), vocabularies=describe_encoders(problem.encoders),
        )  # fmt: skip
        run = RunDir.create(tmp_path / "run", record, problem.encoders)
        with refused(*about):
            insight._examples(values, run, "dev", 2)
