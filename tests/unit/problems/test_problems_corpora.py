"""Corpora that are read in their original format or through TFDS."""

import json
import random
import tarfile

import pytest

from t2t.errors import UserError
from t2t.problems.base import Source
from t2t.runs.names import get_problem


@pytest.mark.parametrize("form", ["aclImdb", "aclImdb_v1.tar.gz"])
def test_reviews_of_imdb_alternate_and_the_last_tenth_is_held_out(tmp_path, drawn, form):
    for split in ("train", "test"):
        for label in ("neg", "pos"):
            folder = tmp_path / "aclImdb" / split / label
            folder.mkdir(parents=True)
            for number in range(11):
                (folder / f"{number}_7.txt").write_text(f"{label} {number}<br /><br />of {split}")
    (tmp_path / "aclImdb" / "train" / "urls_neg.txt").write_text("http")
    if form.endswith("gz"):
        with tarfile.open(tmp_path / form, "w:gz") as archive:
            archive.add(tmp_path / "aclImdb", "aclImdb")
        (tmp_path / "aclImdb").rename(tmp_path / "away")
    train = drawn("sentiment_imdb", "train")
    assert [s["inputs"] for s in train[:3]] == ["neg 0 of train", "pos 0 of train", "neg 1 of train"]
    assert [s["targets"] for s in train[:3]] == ["neg", "pos", "neg"]
    assert len(train) == 20
    assert [s["inputs"] for s in drawn("sentiment_imdb", "dev")] == ["neg 10 of train", "pos 10 of train"]
    assert len(drawn("sentiment_imdb", "test")) == 22


def test_reviews_through_tfds(tmp_path, drawn, prepared_tfds):
    reviews = [{"text": f"a<br />b {number}", "label": number % 2} for number in range(10)]
    prepared_tfds(tmp_path, "imdb_reviews", {"train": reviews, "test": reviews[:2], "unsupervised": reviews[:1]})
    assert len(drawn("sentiment_imdb", "train")) == 9
    assert len(drawn("sentiment_imdb", "dev")) == 1
    found = drawn("sentiment_imdb", "test")
    assert sorted((s["inputs"], s["targets"]) for s in found) == [("a b 0", "neg"), ("a b 1", "pos")]


def test_wikitext_keeps_its_words_and_leaves_out_empty_lines(tmp_path, drawn):
    (tmp_path / "wikitext-2").mkdir()
    for word in ("train", "valid", "test"):
        text = f" \n = A {word} = \n \n It is <unk> , 1 @,@ 000 . \n"
        (tmp_path / "wikitext-2" / f"wiki.{word}.tokens").write_text(text)
    expected = [{"targets": "= A valid ="}, {"targets": "It is <unk> , 1 @,@ 000 ."}]
    assert drawn("languagemodel_wikitext2", "dev") == expected
    problem = get_problem("languagemodel_wikitext2")
    problem.with_encoders(problem.build_encoders(Source(tmp_path, random.Random(0))))
    [_, encoded] = problem.encode_samples(expected)
    assert encoded["targets"][2] == 2  # the corpus's own <unk> becomes the vocabulary's
    assert problem.decode_target(encoded["targets"]) == expected[1]["targets"]
    (tmp_path / "wikitext-2" / "wiki.test.tokens").unlink()
    with pytest.raises(UserError, match=r"languagemodel_wikitext2: wikitext-2/wiki.test.tokens missing from .*; put"):
        drawn("languagemodel_wikitext2", "dev")


def test_one_billion_words_of_its_own_folder(tmp_path, drawn):
    root = tmp_path / "1-billion-word-language-modeling-benchmark-r13output"
    training, heldout = (
        root / "training-monolingual.tokenized.shuffled",
        root / "heldout-monolingual.tokenized.shuffled",
    )
    training.mkdir(parents=True)
    heldout.mkdir()
    for number in (1, 2):
        (training / f"news.en-0000{number}-of-00100").write_text(f"Train {number} .\n")
    for number in (0, 1, 2):
        (heldout / f"news.en.heldout-0000{number}-of-00050").write_text(f"Held out {number} .\n")
    texts = {split: [s["targets"] for s in drawn("languagemodel_lm1b32k", split)] for split in ("train", "dev", "test")}
    assert texts == {"train": ["Train 1 .", "Train 2 ."], "dev": ["Held out 1 ."], "test": ["Held out 0 ."]}
    for path in heldout.iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"heldout-00001-of-00050 missing from 1-billion-.*; unpack its archive again"):
        drawn("languagemodel_lm1b32k", "dev")


def test_one_billion_words_through_tfds(tmp_path, drawn, prepared_tfds):
    prepared_tfds(tmp_path, "lm1b", {"train": [{"text": "Hello there ."}], "test": [{"text": "Bye ."}] * 100})
    assert drawn("languagemodel_lm1b32k", "train") == [{"targets": "Hello there ."}]
    assert drawn("languagemodel_lm1b32k", "dev") == [{"targets": "Bye ."}] * 2
    assert len(drawn("languagemodel_lm1b32k", "test")) == 98


STORIES = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel got the milk.
5 What is Daniel carrying?\tmilk,apple\t4
1 Sandra is here.
2 Is Sandra here?\tyes\t1
"""


def write_babi(folder, task, train=STORIES, test=STORIES, size="en"):
    (folder / size).mkdir(parents=True, exist_ok=True)
    for part, content in (("train", train), ("test", test)):
        (folder / size / f"qa{task}_some-name_{part}.txt").write_text(content)


@pytest.mark.parametrize("form", ["tasks_1-20_v1-2", "tasks_1-20_v1-2.tar.gz"])
def test_babi_asks_after_the_story_so_far(tmp_path, drawn, form):
    write_babi(tmp_path / "tasks_1-20_v1-2", 1)
    write_babi(tmp_path / "tasks_1-20_v1-2", 11, train="")
    if form.endswith("gz"):
        with tarfile.open(tmp_path / form, "w:gz") as archive:
            archive.add(tmp_path / "tasks_1-20_v1-2", "tasks_1-20_v1-2")
        (tmp_path / "tasks_1-20_v1-2").rename(tmp_path / "away")
    story = "mary moved to the bathroom . john went to the hallway ."
    first = {"inputs": f"{story} where is mary ?", "targets": "bathroom"}
    second = {"inputs": f"{story} daniel got the milk . what is daniel carrying ?", "targets": "milk apple"}
    third = {"inputs": "sandra is here . is sandra here ?", "targets": "yes"}
    assert drawn("babi_qa_concat_task1_1k", "test") == [first, second, third]
    assert drawn("babi_qa_concat_task1_1k", "train") == [first, second]
    assert drawn("babi_qa_concat_task1_1k", "dev") == [third]
    with pytest.raises(UserError, match=r"task1_10k: .* has no en-10k/qa1_\*_test.txt; download it again"):
        drawn("babi_qa_concat_task1_10k", "test")


def test_babi_keeps_the_last_sentences_and_takes_tasks_in_turn(tmp_path, drawn):
    root = tmp_path / "tasks_1-20_v1-2"
    long = "".join(f"{n} Number {n}.\n" for n in range(1, 151)) + "151 Which?\tlast\t1\n"
    for task in range(1, 21):
        write_babi(root, task, test=long if task in (2, 3) else STORIES.replace("yes", f"yes {task}"))
    [of_two], [of_three] = (drawn(f"babi_qa_concat_task{task}_1k", "test") for task in (2, 3))
    assert of_two["inputs"].startswith("number 81 . number 82 .")
    assert of_three["inputs"].startswith("number 21 . number 22 .")
    together = drawn("babi_qa_concat_all_tasks_1k", "test")
    assert [sample["targets"] for sample in together[:4]] == ["bathroom", "last", "last", "bathroom"]
    assert [sample["targets"] for sample in together[-2:]] == ["yes 19", "yes 20"]
    assert len(together) == 18 * 3 + 2
    write_babi(root, 1, test="Mary moved.\n")
    with pytest.raises(UserError, match=r"qa1_some-name_test.txt, line 1: 'Mary moved.' has no number and sentence"):
        drawn("babi_qa_concat_task1_1k", "test")


GLUE = ["cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli"]


@pytest.mark.parametrize("task", GLUE)
def test_glue_has_the_texts_and_classes_of_tfds(tmp_path, drawn, prepared_tfds, task):
    import tensorflow_datasets as tfds

    problem = get_problem(f"glue_{task}")
    builder = tfds.builder(problem.dataset, data_dir=tmp_path)
    assert problem.class_labels == tuple(builder.info.features["label"].names)
    assert set(builder.info.features) == {*problem.sides, "label", "idx"}
    if task not in ("cola", "mnli"):
        return
    example = dict.fromkeys(problem.sides, "A  text.") | {"label": 1, "idx": 0}
    prepared_tfds(tmp_path, problem.dataset, {"train": [example], problem.dev_split: [example]})
    expected = {"cola": ("A text.", "acceptable"), "mnli": ("A text. ||| A text.", "neutral")}[task]
    for split in ("train", "dev"):
        [sample] = drawn(f"glue_{task}", split)
        assert (sample["inputs"], sample["targets"]) == expected


def test_glue_has_likeness_in_fifths(tmp_path, drawn, prepared_tfds):
    values = [0.0, 0.09, 0.11, 2.5, 3.8, 4.917, 5.0]
    examples = [{"sentence1": "A.", "sentence2": "B.", "label": value, "idx": 0} for value in values]
    prepared_tfds(tmp_path, "glue/stsb", {"train": examples, "validation": examples})
    expected = ["0.0", "0.0", "0.2", "2.4", "3.8", "5.0", "5.0"]
    assert sorted(sample["targets"] for sample in drawn("glue_stsb", "dev")) == expected
    assert drawn("glue_stsb", "train")[0]["inputs"] == "A. ||| B."


def test_squad_of_its_own_file(tmp_path, drawn):
    question = {"question": " Who? ", "answers": [{"text": "two  men"}, {"text": "men"}]}
    data = {"data": [{"paragraphs": [{"context": "Two men\ncame.", "qas": [question]}]}]}
    (tmp_path / "dev-v1.1.json").write_text(json.dumps(data))
    assert drawn("squad_text2text", "dev") == [
        {"inputs": "question: Who? context: Two men came.", "targets": "two men"}
    ]
    (tmp_path / "dev-v1.1.json").write_text(json.dumps({"data": [{"paragraphs": [{"qas": [question]}]}]}))
    with pytest.raises(UserError, match=r"dev-v1.1.json: is not SQuAD 1.1 \(KeyError: 'context'\); download it again"):
        drawn("squad_text2text", "dev")


def test_squad_through_tfds(tmp_path, drawn, prepared_tfds):
    example = {
        "id": "1", "title": "t", "context": "Two men came.", "question": "Who?",
        "answers": {"text": ["Two men", "men"], "answer_start": [0, 4]},
    }  # fmt: skip
    prepared_tfds(tmp_path, "squad/v1.1", {"train": [example], "validation": [example]})
    assert drawn("squad", "dev") == [{"inputs": "question: Who? context: Two men came.", "targets": "Two men"}]


def test_articles_are_cut_and_summaries_joined(tmp_path, drawn, prepared_tfds):
    example = {"article": "word " * 500, "highlights": "One.\nTwo.", "id": "1", "publisher": ""}
    prepared_tfds(tmp_path, "cnn_dailymail", {split: [example] for split in ("train", "validation", "test")})
    [sample] = drawn("summarize_cnn_dailymail32k", "dev")
    assert (len(sample["inputs"].split()), sample["targets"]) == (400, "One. Two.")
