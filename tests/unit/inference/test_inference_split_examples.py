"""Examples of a split, as translators get them."""

import pytest

from t2t.data.generate import generate
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Translator
from t2t.registry import PROBLEMS
from t2t.runs.data import open_data
from t2t.runs.names import Request
from t2t.specs.constraints.finite import ANYTHING
from tests.letters import Letters, translator_of
from tests.registrations import registered

LINES = {"train": ["a b", "c"], "dev": ["a b zzz", "c  d"]}


class Noted(Letters):
    """Notes the sources that it is asked to constrain outputs for."""

    name, target_language, vocabulary = "noted", "de", ("<2de>", *"abcdefgh")

    def __init__(self, **options):
        super().__init__(**options)
        self.noted = []

    def generate_samples(self, split, source):
        for line in LINES[split]:
            yield {"inputs": line, "targets": line}

    def constraint(self, source):
        self.noted.append(source)
        return ANYTHING


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noted")
    problem = Noted(language_tags="de")
    generate(problem, folder, folder / "tmp", seed=1, workers=1)
    with registered(PROBLEMS, problem.name, Noted):
        return open_data(Request(problem=problem.name, data_dir=str(folder)), problem)


class Requests(Translator):
    """Makes the requests, but searches nothing."""

    def translate_ids(self, *rows, **how):
        self.request(*rows, **how)
        return []


@pytest.fixture
def translator(data):
    translator = translator_of(data.problem)
    data.problem.noted.clear()
    return Requests(translator.problem, translator.model, translator.hparams)


@pytest.mark.parametrize(
    ("split", "changes", "expected"),
    [
        ("dev", {}, ["a b zzz", "c  d"]), ("train", {}, ["a b", "c"]), ("dev", {"constrain_output": False}, []),
    ],
    ids=str,
)  # fmt: skip
def test_constraints_are_of_the_text_that_files_would_have(data, translator, split, changes, expected):
    SplitExamples(data.problem, data.readers[split]).decode(translator, **changes)
    assert data.problem.noted == expected


def test_without_the_text_it_is_read_from_the_ids_less_the_language_tag(data, translator):
    translator.request(SplitExamples(data.problem, data.readers["dev"]).inputs())
    assert data.problem.noted == ["a b <unk>", "c d"]
    assert data.problem.language_marks().input_start
