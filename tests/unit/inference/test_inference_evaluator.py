"""Teacher-forced metrics by hand, the parts of an evaluation, and the examples of a split."""

import logging
import math

import numpy as np
import pytest
import tensorflow as tf

from t2t.data.generation.generate import generate
from t2t.errors import MachineError, UnknownNameError
from t2t.inference.evaluator import Evaluator
from t2t.inference.files.decoding import Job, decode_file
from t2t.inference.hypothesis import Hypothesis
from t2t.inference.split_examples import SplitExamples
from t2t.inference.translator import Translator
from t2t.layers.losses import BLOCK, score_logits
from t2t.registry import PROBLEMS
from t2t.runs.config import RunConfig
from t2t.runs.data import open_data
from t2t.specs.constraints import ANYTHING
from tests.builders import batch as random_batch
from tests.builders import largest_within, numpy, tiny_transformer, tokens_spec
from tests.errors import refused
from tests.letters import Letters, translator_of
from tests.registrations import registered


class Table:
    """A model whose logits are ln 3 for the batch's `guess` and 0 for the other ids.

    With the four ids 0 to 3, the guess has probability 3 / (3 + 1 + 1 + 1) = 1/2.
    """

    variables = ()
    spec = tokens_spec()

    def score_targets(self, features):
        return score_logits(tf.one_hot(features["guess"], 4) * math.log(3.0), features["targets"])


def batch(guesses, targets):
    return np.arange(len(targets)), {"guess": np.array(guesses, np.int32), "targets": np.array(targets, np.int32)}


BATCHES = [
    batch([[2, 3, 1], [2, 2, 1]], [[2, 3, 1], [3, 2, 1]]),  # all right; two of three right
    batch([[3, 1, 0, 0]], [[3, 1, 0, 0]]),  # all right; guesses at padding do not count
]


def test_by_hand():
    """Eight tokens, seven right: p = 1/2 for the right ones and 1/6 for the wrong one."""
    evaluator = Evaluator(Table(), BATCHES, None, ())
    figures = evaluator()
    assert evaluator() == figures, "batches may be evaluated again"
    loss = (7 * math.log(2) + math.log(6)) / 8
    expected = {
        "loss": loss, "perplexity": math.exp(loss), "neg_log_perplexity": -loss, "accuracy": 7 / 8,
        "accuracy_per_sequence": 2 / 3,
    }  # fmt: skip
    assert figures == pytest.approx({f"teacher_forced/{name}": value for name, value in expected.items()}, rel=1e-5)


def test_classes_are_sequences_of_one_token_and_class_0_is_one_of_them():
    """Four examples, three right; p = 1/2 for the right ones and 1/6 for the wrong one."""
    figures = Evaluator(Table(), [batch([0, 2, 3], [0, 2, 0]), batch([0], [0])], None, ())()
    assert figures["teacher_forced/accuracy"] == figures["teacher_forced/accuracy_per_sequence"] == 3 / 4
    assert figures["teacher_forced/loss"] == pytest.approx((3 * math.log(2) + math.log(6)) / 4, rel=1e-5)


def test_rows_of_padding_are_no_sequences():
    figures = Evaluator(Table(), [batch([[2, 1], [0, 0]], [[2, 1], [0, 0]])], None, ())()
    assert figures["teacher_forced/accuracy_per_sequence"] == 1.0
    assert figures["teacher_forced/accuracy"] == 1.0


def test_text_metrics_are_of_real_decodes_and_the_others_are_not():
    calls = []

    def decode():
        calls.append(1)
        return ["a b", "c"], ["a b", "d"]

    figures = Evaluator(Table(), BATCHES, decode, ("accuracy_per_sequence", "accuracy"))()
    assert figures["accuracy_per_sequence"] == 0.5
    assert "accuracy" not in figures
    assert len(calls) == 1
    Evaluator(Table(), BATCHES, lambda: pytest.fail("decoded"), ("accuracy",))()


def test_decodes_are_scored_in_their_language():
    lines = ["猫坐在垫子上面。"], ["猫坐在垫子上。"]
    figures = [Evaluator(Table(), BATCHES, lambda: lines, ("bleu",), *language)()["bleu"] for language in ((), ("zh",))]
    assert figures[0] == 0
    assert figures[1] > 50


def test_an_unknown_metric_is_named_before_anything_runs():
    with refused("'bleue'", "bleu", by=UnknownNameError):
        Evaluator(Table(), BATCHES, None, ("bleue",))


class Extremes(list):
    """Batches, of which the first needs the most memory."""

    def extremes(self):
        return [self[0][1]]


@pytest.mark.parametrize("where", ["evaluation", "rehearsal"])
def test_running_out_of_memory_says_of_what_and_what_to_do(where):
    class Full(Table):
        def score_targets(self, features):
            raise MemoryError

    evaluator = Evaluator(Full(), Extremes(BATCHES), None, ())
    with refused("guess", "targets", 2, 3, "batch_size", "max_input_length", by=MachineError):
        evaluator() if where == "evaluation" else evaluator.warm_up()


def test_rehearsal_decodes_where_an_evaluation_does_and_reads_only_the_extreme_batches():
    class Recorded(Table):
        def score_targets(self, features):
            tf.py_function(lambda targets: seen.append(tuple(targets.shape)), [features["targets"]], [])
            return super().score_targets(features)

    decode, calls, seen = lambda: pytest.fail("decoded all"), [], []
    for metrics in (("accuracy",), ("bleu",)):
        Evaluator(Recorded(), Extremes(BATCHES), decode, metrics, warm_up_decode=lambda: calls.append(1)).warm_up()
    assert (seen, calls) == ([(2, 3), (2, 3)], [1])


# === Memory ===
def test_figures_are_those_of_whole_logits():
    model, features = tiny_transformer(num_hidden_layers=1), random_batch()
    logits, targets = numpy(model(features)), features["targets"]
    weights = targets != 0
    gold = np.take_along_axis(logits, targets[..., None], axis=2)[..., 0] - np.log(np.exp(logits).sum(axis=2))
    right = (logits.argmax(axis=2) == targets) & weights
    figures = Evaluator(model, [(np.arange(3), features)], None, ())()
    assert figures["teacher_forced/loss"] == pytest.approx(-gold[weights].mean(), rel=1e-5)
    assert figures["teacher_forced/accuracy"] == pytest.approx(right.sum() / weights.sum())
    assert figures["teacher_forced/accuracy_per_sequence"] == (right | ~weights).all(axis=1).mean()


def test_no_more_logits_than_a_block_are_ever_held():
    """With 4,096 positions and 1,000 ids, no operation of an evaluation outputs more than a block of logits."""
    model = tiny_transformer(tokens_spec(1000, 1000), num_hidden_layers=1)
    evaluator = Evaluator(model, [], None, ())
    shapes = {name: tf.TensorSpec((256, 16), tf.int32) for name in ("inputs", "targets")}
    graph = tf.function(evaluator._batch_sums, autograph=False).get_concrete_function(shapes).graph
    assert largest_within(graph) == BLOCK * 1000 < 256 * 16 * 1000


# === Examples of a split, as translators get them ===

LINES = {"train": ["a b", "c"], "dev": ["a b zzz", " \t", "c  d"]}


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
        return open_data(RunConfig(problem=problem.name, data_dir=str(folder)), problem)


class Requests(Translator):
    """Makes the requests, but searches nothing."""

    def translate_ids(self, *rows, **how):
        self.request(*rows, **how)
        return [[Hypothesis("", (5,), 0.0, 0.0, cut=number == 1)] for number, _ in enumerate(rows[0])]


@pytest.fixture
def translator(data):
    translator = translator_of(data.problem, num_hidden_layers=1)
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


def test_outputs_that_end_at_their_limit_are_counted_in_the_log(data, translator, caplog):
    with caplog.at_level(logging.INFO, "t2t"):
        SplitExamples(data.problem, data.readers["dev"]).decode(translator)
    (line,) = [message for message in caplog.messages if "extra_length" in message]
    assert line.startswith("1 of 3 outputs of dev ")


def test_a_split_has_the_outputs_of_a_file_with_its_lines(data, tmp_path):
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES["dev"]))
    translator = translator_of(data.problem, num_hidden_layers=1)
    found = SplitExamples(data.problem, data.readers["dev"]).decode(translator)
    decode_file(translator, Job(source=str(tmp_path / "in"), target=str(tmp_path / "out")))
    assert (tmp_path / "out").read_text().split("\n") == [*(best.text for best, *_ in found), ""]
    assert [best.ids == () for best, *_ in found] == [False, True, False]


def test_without_the_text_it_is_read_from_the_ids_less_the_language_tag(data, translator):
    translator.request(SplitExamples(data.problem, data.readers["dev"]).inputs())
    assert data.problem.noted == ["a b <unk>", "c d"], "blank inputs are not translated"
    assert data.problem.languages.marks().input_start
