"""The page on a run's data, compared with counts of the raw samples by hand and by brute force."""

import dataclasses
import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from t2t.data.generation.generate import generate
from t2t.data.manifest import MANIFEST_NAME, load_encoders, read_manifest
from t2t.data.reading.eval_batches import EvalBatches
from t2t.data.reading.reader import SplitReader
from t2t.data.reading.training_batches import TrainingBatches
from t2t.problems.text_problems import Text2Text
from t2t.runs.data import OpenData
from t2t.studio.data_answers import (
    MOST_BARS,
    SearchLimits,
    data_answer,
    data_examples_answer,
    data_pieces_answer,
    examples_json,
    histogram,
    pieces_json,
    split_json,
)
from t2t.studio.model_answers import occlusion_answer
from t2t.studio.run_folders import RunFolders
from t2t.studio.split_data import OpenedData, SplitData, spread
from t2t.studio.studio import LoadedModels, Studio
from t2t.text.words import TokenEncoder
from tests.errors import refused
from tests.many_runs import write_run

WORDS = ("red", "green", "blue", "never")


class Colours(Text2Text):
    """Lines of colours; `pink` is not in the vocabulary, one line is too long, one is empty."""

    name = "colours"
    vocabulary = WORDS
    max_length = 12
    lines = ("red green", "blue", "red red red", "green pink", "pink blue red green blue", "", "red " * 13)

    def generate_samples(self, split, source):
        for line in self.lines if split == "train" else self.lines[:3]:
            yield {"inputs": line.strip(), "targets": " ".join(reversed(line.split()))}


KEPT = [line for line in Colours.lines if 0 < len(line.split()) < Colours.max_length]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("data")
    generate(Colours(), data_dir, data_dir / "tmp", seed=7, workers=1)
    return data_dir / "colours"


def opened(folder, split):
    manifest = read_manifest(folder)
    problem = Colours().with_encoders(load_encoders(folder, manifest))
    return OpenData(problem, manifest, {split: SplitReader(folder, manifest, split)}, "", "")


def split_of(folder, split="train"):
    data = opened(folder, split)
    reader = data.readers[split]
    if split == "train":
        batches = TrainingBatches(reader, seed=1, batch_size=12, ladder_step=1.0)
    else:
        batches = EvalBatches(reader, 100, ladder_step=1.0)
    return SplitData(data, split, batches)


def test_what_was_dropped_is_told_with_its_reason_and_lengths_count_pieces_with_the_end(folder):
    found = split_json(split_of(folder))
    assert found["examples"] == found["sampled"] == len(KEPT) == 5
    assert sorted(found["dropped"].values()) == [1, 1]
    assert any("longer than 12" in reason for reason in found["dropped"])
    assert found["splits"] == ["train", "dev"]
    lengths = [len(line.split()) + 1 for line in KEPT]
    for feature in found["features"]:
        bars = feature["lengths"]
        assert (bars["start"], bars["width"]) == (2, 1)
        assert bars["counts"] == [lengths.count(n) for n in range(2, 7)]
        assert (bars["mean"], bars["median"], bars["longest"]) == (np.mean(lengths), np.median(lengths), 6)


def test_pieces_are_counted_over_both_sides_of_a_shared_vocabulary(folder):
    words = Counter(word for line in KEPT for word in line.split())
    split = split_of(folder)
    (vocabulary,) = split_json(split)["vocabularies"]
    assert vocabulary["features"] == ["inputs", "targets"]
    assert vocabulary["unknown"] == 2 * words["pink"] == 4
    assert vocabulary["total"] == 2 * words.total()
    assert (vocabulary["never"], vocabulary["rare"]) == (1, 1)  # never; <unk>, less than 5 times
    found = pieces_json(split, 0, "most frequent", "", 0, 10)
    counted = {one["piece"]: one["count"] for one in found["pieces"]}
    assert counted == {"<unk>": 4, **{word: 2 * words[word] for word in WORDS}}
    assert sum(one["share"] for one in found["pieces"]) == pytest.approx(1)
    assert found["pieces"][0]["piece"] == "red"
    assert pieces_json(split, 0, "least frequent", "", 0, 1)["pieces"][0]["piece"] == "never"
    assert [one["piece"] for one in pieces_json(split, 0, "id", "", 1, 2)["pieces"]] == ["red", "green"]
    found = pieces_json(split, 0, "most frequent", "E", 1, 2)
    assert (found["total"], [one["piece"] for one in found["pieces"]]) == (4, ["green", "blue"])  # equal counts, by id


def test_an_example_has_its_pieces_and_the_padding_of_the_batch_that_training_reads(folder):
    split = split_of(folder)
    found = examples_json(split, 0, 10)
    assert (found["total"], found["next"], found["searched"]) == (5, None, 5)
    read = {}
    while split.batches.state()["epoch"] == 0:
        arrays, _ = next(split.batches)
        for row in arrays["inputs"]:
            ids = row[row > 0].tolist()
            read[tuple(ids)] = arrays["inputs"]
    encoder = split.problem.encoders["inputs"]
    for one, line in zip(found["examples"], KEPT, strict=True):
        inputs, targets = one["features"]
        assert inputs["pieces"] == [*(word if word in WORDS else "<unk>" for word in line.split()), "</s>"]
        assert targets["pieces"][:-1] == inputs["pieces"][-2::-1]
        assert [inputs["pieces"][place] for place in inputs["unknown"]] == ["<unk>"] * line.count("pink")
        batch = read[tuple([*encoder.encode(line), 1])]
        assert one["batch"]["rows"] == len(batch)
        assert inputs["length"] + inputs["padded"] == batch.shape[1] == one["batch"]["widths"]["inputs"]
        assert one["batch"]["padding"]["inputs"] == pytest.approx((batch == 0).mean())


def test_the_batch_of_a_dev_example_is_that_of_an_evaluation(folder):
    found = examples_json(split_of(folder, "dev"), 1, 1)
    (one,) = found["examples"]
    assert (one["number"], found["next"]) == (1, 2)
    assert one["batch"] == {
        "rows": 3, "examples": 3, "widths": {"inputs": 4, "targets": 4},
        "padding": {"inputs": pytest.approx(0.25), "targets": pytest.approx(0.25)},
    }  # fmt: skip
    assert [feature["padded"] for feature in one["features"]] == [2, 2]


def test_a_search_finds_every_example_with_the_text_and_no_other(folder):
    split = split_of(folder)
    both = [(line, " ".join(line.split()[::-1])) for line in KEPT]
    for text in ("red", "BLUE", "green blue", "d r", "nothing"):
        expected = [n for n, sides in enumerate(both) if any(text.lower() in side for side in sides)]
        found = examples_json(split, 0, 50, text)
        assert [one["number"] for one in found["examples"]] == expected
        assert found["next"] is None


@pytest.mark.parametrize("limit", [{"examples": 2}, {"ids": 6}], ids=str)
def test_a_search_goes_on_where_a_request_ended(folder, limit):
    split, start, numbers = split_of(folder), 0, []
    while start is not None:
        found = examples_json(split, start, 1, "red", SearchLimits(**limit, block=1))
        numbers += [one["number"] for one in found["examples"]]
        assert found["next"] is None or start < found["next"] <= start + 2
        start = found["next"]
    assert numbers == [n for n, line in enumerate(KEPT) if "red" in line]


def test_figures_of_a_large_split_are_over_examples_of_all_its_parts(folder):
    split = dataclasses.replace(split_of(folder), most_sampled=3, most_items=4)
    found = split_json(split)
    assert (found["examples"], found["sampled"]) == (5, 3)
    assert sum(found["features"][0]["lengths"]["counts"]) == 3
    counts, examples = split.counts[0]
    assert examples == 1
    ids = np.concatenate([split.ids(name, split.sample[spread(3, 1)])[0] for name in split.columns])
    assert {token: count for token, count in enumerate(counts.tolist()) if count} == dict(Counter(ids.tolist()))


@pytest.mark.parametrize(("count", "most"), [(0, 5), (5, 5), (1000, 10), (12_345, 1000)])
def test_a_spread_takes_one_of_each_part(count, most):
    found = spread(count, most)
    assert len(found) == min(count, most)
    assert np.array_equal(found, spread(count, most))
    for place, number in enumerate(found.tolist()):
        assert count * place // len(found) <= number < count * (place + 1) // len(found)


@pytest.mark.parametrize("is_continuous", [False, True])
def test_a_histogram_counts_each_length_in_its_bar(is_continuous):
    rng = np.random.default_rng(0)
    for longest in (1, 3, 60, 61, 977):
        lengths = rng.uniform(0.5, longest, 500) if is_continuous else rng.integers(1, longest + 1, 500)
        found = histogram(np.asarray(lengths), is_continuous)
        start, width, counts = found["start"], found["width"], found["counts"]
        assert len(counts) <= MOST_BARS
        assert sum(counts) == 500
        edges = start + width * np.arange(len(counts) + 1)
        inside = [(lengths >= low) & (lengths < high) for low, high in itertools.pairwise(edges)]
        inside[-1] = lengths >= edges[-2]
        assert counts == pytest.approx([int(where.sum()) for where in inside], abs=1 if is_continuous else 0)
        assert is_continuous or width == int(width)


def test_an_id_that_the_vocabulary_lacks_is_said(folder):
    split = split_of(folder)
    split.problem.with_encoders(dict.fromkeys(split.columns, TokenEncoder(["red"])))
    for look in (lambda: split.counts, lambda: examples_json(split, 0, 2)):
        with refused(split.reader.folder, "inputs", "train", "4;"):
            look()


# === Opened by runs ===
@pytest.fixture
def studio(folder, tmp_path):
    run = write_run(tmp_path / "runs/run", 2)
    calls = []

    def open_split(run, problem, split):
        calls.append((run.path.name, problem, split))
        return opened(folder, split)

    made = Studio(RunFolders({}, [tmp_path / "runs"]), LoadedModels(None), data=OpenedData(open_split))
    return SimpleNamespace(studio=made, calls=calls, run=run)


def test_answers_are_of_the_split_that_is_asked_for_which_is_opened_once_with_batches_of_the_run(studio, folder):
    asked = {"run": "run", "split": "dev"}
    found = data_answer(studio.studio, asked)
    assert (found["split"], found["examples"], found["problems"]) == ("dev", 3, ["translate_ende_numbers"])
    assert data_examples_answer(studio.studio, {**asked, "start": "2"})["examples"][0]["number"] == 2
    assert data_pieces_answer(studio.studio, {**asked, "count": "2"})["total"] == 5
    assert studio.calls == [("run", "translate_ende_numbers", "dev")]
    (folder / MANIFEST_NAME).touch()  # it was generated again
    data_answer(studio.studio, asked)
    assert len(studio.calls) == 2
    # Batches of 2,048 padded tokens hold all; widths go up to the longest.
    for split, rows in (("train", 5), ("dev", 3)):
        found = data_examples_answer(studio.studio, {"run": "run", "split": split})
        assert {one["batch"]["rows"] for one in found["examples"]} == {rows}


@pytest.mark.parametrize(
    ("answer", "asked", "about"),
    [
        (data_answer, {"split": "tset"}, "'tset': colours train, dev"),
        (data_answer, {"problem": "other"}, "other translate_ende_numbers;"),
        (data_answer, {"run": "nowhere"}, "'nowhere'"),
        (data_examples_answer, {"count": "51"}, "count '51' 1 50"),
        (data_examples_answer, {"start": "-1"}, "start '-1' 0"),
        (data_examples_answer, {"start": "²"}, "start '²' 0"),
        (data_pieces_answer, {"vocabulary": "1"}, "vocabulary '1' 0"),
        (data_pieces_answer, {"order": "best"}, "order 'best' frequent, id"),
    ],
)
def test_mistakes_are_said(studio, answer, asked, about):
    with refused(*about.split()):
        answer(studio.studio, {"run": "run", **asked})


def test_what_the_data_does_not_have_is_said_and_how_it_is_named(folder, studio):
    for answer, problem in ((data_pieces_answer, Colours()), (occlusion_answer, opened(folder, "dev").problem)):
        split = SplitData(dataclasses.replace(opened(folder, "dev"), problem=problem), "dev", None)
        model = SimpleNamespace(problem=problem), 7, None
        fake = SimpleNamespace(data=lambda *asked, split=split: split, model=lambda *asked, model=model, **how: model)
        with refused("colours:"):
            answer(fake, {})
    with refused("t2t-insight", "--data_dir=FOLDER"):
        data_answer(Studio(studio.studio.runs, LoadedModels(None)), {"run": "run"})
