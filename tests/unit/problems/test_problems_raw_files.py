"""Data sets in their original files or in those of TFDS: the samples of each split, and which missing file is named."""

import dataclasses
import json
import pickle
import random
import shutil
import tarfile

import numpy as np
import pytest

from t2t.problems.base import Source, declared_spec
from t2t.problems.tfds import class_names
from t2t.runs.names import get_problem
from tests.errors import refused
from tests.raw_files import idx, mnist_files, write_files


@dataclasses.dataclass
class Original:
    """Raw files of a problem, and the samples of some splits; of images the brightest pixel, of recordings the name."""

    problem: str
    files: dict[str, str | bytes]
    samples: dict[str, list[tuple]]
    archive: str = ""
    """Of the folder that the files are in, without which they are not found."""

    def write(self, folder):
        write_files(folder, self.files)
        if self.archive:
            (name,) = {name.partition("/")[0] for name in self.files}
            with tarfile.open(folder / self.archive, "w:gz") as archive:
                archive.add(folder / name, name)
            shutil.rmtree(folder / name)


def plain(sample):
    shown = {np.ndarray: lambda image: int(image.max()), str: str}
    return tuple(shown.get(type(value), lambda path: path.name)(value) for value in sample.values())


IMDB = {
    f"aclImdb/{split}/{label}/{number}_7.txt": f"{label} {number}<br /><br />of {split}"
    for split in ("train", "test") for label in ("neg", "pos") for number in range(11)
} | {"aclImdb/train/urls_neg.txt": "http"}  # fmt: skip
REVIEWS = {split: [(f"{label} {n} of {split}", label) for n in range(11) for label in ("neg", "pos")]
           for split in ("train", "test")}  # fmt: skip
IMDB_SAMPLES = {"train": REVIEWS["train"][:20], "dev": REVIEWS["train"][20:], "test": REVIEWS["test"]}

WIKITEXT = {
    f"wikitext-2/wiki.{word}.tokens": f" \n = A {word} = \n \n It is <unk> , 1 @,@ 000 . \n"
    for word in ("train", "valid", "test")
}
PTB = {f"simple-examples/data/ptb.{word}.txt": f" the <unk> of N {word} \n" for word in ("train", "valid", "test")}
MATHS = {f"mathematics_dataset-v1.0/{folder}/sums.txt": f"{folder}?\n1\nAnd?\n2\n"
         for folder in ("train-easy", "train-hard", "interpolate")}  # fmt: skip
LM1B = "1-billion-word-language-modeling-benchmark-r13output"
SHUFFLED = "monolingual.tokenized.shuffled/news.en"
LM1B_FILES = {f"{LM1B}/training-{SHUFFLED}-0000{n}-of-00100": f"Train {n} .\n" for n in (1, 2)} | {
    f"{LM1B}/heldout-{SHUFFLED}.heldout-0000{n}-of-00050": f"Held out {n} .\n" for n in (0, 1, 2)
}

STORIES = """1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel got the milk.
5 What is Daniel carrying?\tmilk,apple\t4
1 Sandra is here.
2 Is Sandra here?\tyes\t1
"""
STORY = "mary moved to the bathroom . john went to the hallway ."
ANSWERS = [
    (f"{STORY} where is mary ?", "bathroom"),
    (f"{STORY} daniel got the milk . what is daniel carrying ?", "milk apple"),
    ("sandra is here . is sandra here ?", "yes"),
]


def babi(task, train=STORIES, test=STORIES):
    folder = "tasks_1-20_v1-2/en"
    return {f"{folder}/qa{task}_some-name_train.txt": train, f"{folder}/qa{task}_some-name_test.txt": test}


BABI = babi(1) | babi(11, train="")
BABI_SAMPLES = {"train": ANSWERS[:2], "dev": ANSWERS[2:], "test": ANSWERS}

QUESTION = {"question": " Who? ", "answers": [{"text": "two  men"}, {"text": "men"}]}
SQUAD = {"data": [{"paragraphs": [{"context": "Two men\ncame.", "qas": [QUESTION]}]}]}

LIBRISPEECH = {}
for part, text in (("train-clean-100", "ONE"), ("dev-clean", "TWO"), ("dev-other", "THREE"), ("test-clean", "FOUR")):
    chapter = f"LibriSpeech/{part}/1/2/1-2"
    LIBRISPEECH |= {f"{chapter}.trans.txt": f"1-2-0000 {text} WORD\n1-2-0001 {text} MORE\n"}
    LIBRISPEECH |= {f"{chapter}-0000.wav": b"", f"{chapter}-0001.flac": b""}


def spoken(*texts):
    files = {"WORD": "1-2-0000.wav", "MORE": "1-2-0001.flac"}
    return [(file, f"{text} {word}") for text in texts for word, file in files.items()]


def common_voice(folder):
    return {f"{folder}/clips/one.wav": b"", f"{folder}/clips/two.mp3": b""} | {
        f"{folder}/{split}.tsv": f'id\tpath\tsentence\tup\nx\tone.mp3\tA "quoted {split}.\t1\ny\ttwo.mp3\tB.\t2\n'
        for split in ("train", "dev", "test")
    }


def flat_images(count, *shape, first=0):
    """Image n is filled with n."""
    return np.arange(first, first + count, dtype=np.uint8).reshape(-1, *[1] * len(shape)) * np.ones(shape, np.uint8)


def mnist(folder, train=36, test=10):
    """The label of image n is n modulo 10."""
    files = {}
    for stem, size in (("train", train), ("t10k", test)):
        files |= mnist_files(flat_images(size, 28, 28), np.arange(size, dtype=np.uint8) % 10, [stem])
    return {folder + name: content for name, content in files.items()}


def numbered(numbers):
    return [(n, str(n % 10)) for n in numbers]


def cifar(version):
    files = {}
    for number, stem in enumerate([f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]):
        images, labels = flat_images(4, 3072, first=4 * number), np.arange(number, number + 4, dtype=np.uint8)
        if version == "binary":
            records = np.concatenate([labels[:, None], images], axis=1)
            files[f"cifar-10-batches-bin/{stem}.bin"] = records.tobytes()
        else:
            files[f"cifar-10-batches-py/{stem}"] = pickle.dumps({b"data": images, b"labels": labels.tolist()}, 2)
    return files


CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
CIFAR = [(4 * batch + n, CLASSES[batch + n]) for batch in range(6) for n in range(4)]
CIFAR_SAMPLES = {"train": CIFAR[:18], "dev": CIFAR[18:20], "test": CIFAR[20:]}
FINE = np.concatenate([np.array([[1, 99], [2, 0]], np.uint8), flat_images(2, 3072)], axis=1).tobytes()

ORIGINALS = [
    Original("sentiment_imdb", IMDB, IMDB_SAMPLES),
    Original("sentiment_imdb", IMDB, IMDB_SAMPLES, archive="aclImdb_v1.tar.gz"),
    Original("languagemodel_wikitext2", WIKITEXT, {"dev": [("= A valid =",), ("It is <unk> , 1 @,@ 000 .",)]}),
    Original("languagemodel_ptb10k", PTB, {"dev": [("the <unk> of N valid",)]}),
    Original("algorithmic_math_deepmind_all", MATHS, {"dev": [("interpolate?", "1"), ("And?", "2")], "train":
             [("train-easy?", "1"), ("And?", "2"), ("train-hard?", "1"), ("And?", "2")]}),
    Original("languagemodel_lm1b32k", LM1B_FILES, {"train": [("Train 1 .",), ("Train 2 .",)],
             "dev": [("Held out 1 .",)], "test": [("Held out 0 .",)]}),
    Original("babi_qa_concat_task1_1k", BABI, BABI_SAMPLES),
    Original("babi_qa_concat_task1_1k", BABI, BABI_SAMPLES, archive="tasks_1-20_v1-2.tar.gz"),
    Original("squad_text2text", {"dev-v1.1.json": json.dumps(SQUAD)},
             {"dev": [("question: Who? context: Two men came.", "two men")]}),
    Original("librispeech", LIBRISPEECH, {"dev": spoken("TWO", "THREE")}),
    Original("librispeech_clean", LIBRISPEECH, {"dev": spoken("TWO")}),
    Original("librispeech_train_full_test_other", LIBRISPEECH, {"dev": spoken("THREE")}),
    Original("librispeech_clean_small", LIBRISPEECH, {"train": spoken("ONE")}),
    *(Original("common_voice", common_voice(folder), {"dev": [("one.wav", 'A "quoted dev.'), ("two.mp3", "B.")]})
      for folder in ("en", "cv-corpus-9.0/en")),
    *(Original("image_mnist", mnist(folder), {"train": numbered(range(33)), "dev": numbered(range(33, 36)),
               "test": numbered(range(10))}) for folder in ("", "mnist/")),
    Original("image_mnist_t10k", {name: content for name, content in mnist("").items() if "t10k" in name},
             {"train": numbered([0, 1, 2, 3, 5, 6, 7, 8]), "dev": numbered([4, 9])}),
    Original("image_fashion_mnist", mnist("") | mnist("fashion-mnist/", test=2),
             {"test": [(0, "t-shirt"), (1, "trouser")]}),
    *(Original("image_cifar10", cifar(version), CIFAR_SAMPLES, archive)
      for version in ("binary", "python") for archive in ("", f"cifar-10-{version}.tar.gz")),
    Original("image_cifar100", {"cifar-100-binary/test.bin": FINE}, {"test": [(0, "worm"), (1, "apple")]}),
]  # fmt: skip
BY_NAME = {original.problem: original for original in ORIGINALS}


@pytest.mark.parametrize("original", ORIGINALS, ids=lambda original: f"{original.problem} {original.archive}".strip())
def test_original_files_give_the_samples_of_each_split(original, tmp_path, drawn):
    original.write(tmp_path)
    for split, samples in original.samples.items():
        assert [plain(sample) for sample in drawn(original.problem, split)] == samples


@pytest.mark.parametrize(("problem", "without", "of", "split", "names"), [
    ("languagemodel_wikitext2", "*/wiki.test.tokens", "", "dev", ["wikitext-2/wiki.test.tokens"]),
    ("languagemodel_lm1b32k", "*/*/news.en.held*", "", "dev", ["heldout-00001-of-00050", LM1B]),
    ("babi_qa_concat_task1_1k", "", "babi_qa_concat_task1_10k", "test", ["en-10k/qa1_*_test.txt"]),
    ("algorithmic_math_deepmind_all", "*/train*/sums.txt", "", "train", ["train-easy", "mathematics_dataset-v1.0"]),
    ("librispeech", "", "", "train", ["/train-clean-360"]),
    ("librispeech", "*/dev-clean/1/2/1-2-0001.flac", "", "dev", ["1-2.trans.txt", "1-2-0001.wav", ".flac"]),
    ("common_voice", "cv-corpus-9.0/en/clips/two.mp3", "", "dev", ["dev.tsv", "clips/two.mp3"]),
    ("image_mnist_t10k", "", "image_mnist", "train", ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
     "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "image_mnist_t10k"]),
    ("image_mnist_t10k", "", "image_mnist_gen", "train", ["train-images-idx3-ubyte"]),
    ("image_mnist_t10k", "", "video_moving_mnist_class", "train", ["train-images-idx3-ubyte"]),
    ("image_cifar100", "", "", "train", ["cifar-100-binary", "train.bin"]),
])  # fmt: skip
def test_missing_files_are_named(problem, without, of, split, names, tmp_path, drawn):
    BY_NAME[problem].write(tmp_path)
    for path in tmp_path.glob(without or "nothing"):
        path.unlink()
    with refused(*names, *([of] if of else [])):
        drawn(of or problem, split)


ANSWERS_FILE = "tasks_1-20_v1-2/en/qa1_some-name_test.txt"
WITHOUT_CONTEXT = json.dumps({"data": [{"paragraphs": [{"qas": [QUESTION]}]}]})
VOICE, LABELS = "en/train.tsv", "t10k-labels-idx1-ubyte"


@pytest.mark.parametrize(("problem", "split", "file", "content", "names"), [
    ("babi_qa_concat_task1_1k", "test", ANSWERS_FILE, "Mary moved.\n", [ANSWERS_FILE, "1:"]),
    ("algorithmic_math_deepmind_all", "dev", "mathematics_dataset-v1.0/extrapolate/odd.txt", "1+1?\n", ["odd.txt", 1]),
    ("squad", "dev", "dev-v1.1.json", WITHOUT_CONTEXT, ["dev-v1.1.json", "'context'"]),
    ("common_voice", "train", VOICE, "path\twords\na\tb\n", [VOICE, "path,", "words;", "sentence"]),
    *(("common_voice", "train", VOICE, f"sentence\tpath\n\nOne.\t{path}\n", [VOICE, *names])
      for path, names in (("", ["3,", "''"]), ("/", ["3,", "'/'"]), ("x" * 300, ["x" * 300]))),
    ("sentiment_imdb", "test", "aclImdb/test/neg/0_7.txt", "Bad.", ["sentiment_imdb:", "aclImdb/test/pos/;"]),
    pytest.param("image_cifar10", "test", "cifar-10-batches-bin/test_batch.bin", b"\12" * 3073,
                 ["image_cifar10:", "cifar-10-batches-bin", "10;"], id="image_cifar10 of more classes"),
    ("image_mnist", "test", LABELS, idx(np.zeros(9, np.uint8)), [LABELS, "10", "9"]),
    ("image_mnist", "test", LABELS, idx(np.full(10, 11, np.uint8)), ["image_mnist:", "11;"]),
])  # fmt: skip
def test_files_of_other_content_are_named(problem, split, file, content, names, tmp_path, drawn):
    write_files(tmp_path, (mnist("") if problem == "image_mnist" else {}) | {file: content})
    with refused(*names):
        drawn(problem, split)


def test_words_of_wikitext_are_kept_and_its_own_unknown_word_is_the_vocabularys(source):
    write_files(source.tmp_dir, WIKITEXT)
    problem = get_problem("languagemodel_wikitext2")
    problem.with_encoders(problem.build_encoders(source))
    sample = {"targets": "It is <unk> , 1 @,@ 000 ."}
    [encoded] = problem.encode_samples([sample])
    assert encoded["targets"][2] == 2
    assert problem.decode_target(encoded["targets"]) == sample["targets"]


def test_babi_keeps_the_last_sentences_and_takes_tasks_in_turn(tmp_path, drawn):
    long = "".join(f"{n} Number {n}.\n" for n in range(1, 151)) + "151 Which?\tlast\t1\n"
    for task in range(1, 21):
        write_files(tmp_path, babi(task, test=long if task in (2, 3) else STORIES.replace("yes", f"yes {task}")))
    [of_two], [of_three] = (drawn(f"babi_qa_concat_task{task}_1k", "test") for task in (2, 3))
    assert of_two["inputs"].startswith("number 81 . number 82 .")
    assert of_three["inputs"].startswith("number 21 . number 22 .")
    together = drawn("babi_qa_concat_all_tasks_1k", "test")
    assert [sample["targets"] for sample in together[:4]] == ["bathroom", "last", "last", "bathroom"]
    assert [sample["targets"] for sample in together[-2:]] == ["yes 19", "yes 20"]
    assert len(together) == 18 * 3 + 2


def test_rows_of_common_voice_end_only_with_their_lines(tmp_path, drawn):
    rows = b"path\tsentence\r\na\tOne\rtwo.\r\n\na\tThree.\n"
    write_files(tmp_path, {"en/clips/a.wav": b"", "en/train.tsv": rows})
    assert [sample["targets"] for sample in drawn("common_voice", "train")] == ["One\rtwo.", "Three."]
    write_files(tmp_path, {"en/train.tsv": rows + b"a\n"})
    with refused("train.tsv", "path;", "sentence"):
        drawn("common_voice", "train")


# === Through TFDS ===

REVIEWS_OF_TFDS = [{"text": f"a<br />b {number}", "label": number % 2} for number in range(10)]
BYE = [{"text": "Bye ."}]
ANSWERED = {
    "id": "1", "title": "t", "context": "Two men came.", "question": "Who?",
    "answers": {"text": ["Two men", "men"], "answer_start": [0, 4]},
}  # fmt: skip
ARTICLE = {"article": "word " * 500, "highlights": "One.\nTwo.", "id": "1", "publisher": ""}
MEETING = {"en": "The meeting begins.", "ro": "Ședința începe."}
LIKENESS = [0.0, 0.09, 0.11, 2.5, 3.8, 4.917, 5.0]


def similar(value):
    return {"sentence1": "A.", "sentence2": "B.", "label": value, "idx": 0}


def fashion(count):
    return [{"image": np.full((28, 28, 1), n, np.uint8), "label": n} for n in range(count)]


def glue(label, *sides):
    return [dict.fromkeys(sides, "A  text.") | {"label": label, "idx": 0}]


def each(*splits, of):
    """Returns the same examples for each split."""
    return {split: list(of) for split in splits}


TFDS = [
    ("sentiment_imdb", "imdb_reviews", {"train": REVIEWS_OF_TFDS, "test": REVIEWS_OF_TFDS[:2],
     "unsupervised": REVIEWS_OF_TFDS[:1]}, {"train": 9, "dev": 1, "test": [("a b 0", "neg"), ("a b 1", "pos")]}),
    ("languagemodel_lm1b32k", "lm1b", {"train": [{"text": "Hello there ."}], "test": BYE * 100},
     {"train": [("Hello there .",)], "dev": [("Bye .",)] * 2, "test": 98}),
    ("squad", "squad/v1.1", each("train", "validation", of=[ANSWERED]),
     {"dev": [("question: Who? context: Two men came.", "Two men")]}),
    ("summarize_cnn_dailymail32k", "cnn_dailymail", each("train", "validation", "test", of=[ARTICLE]),
     {"dev": [(" ".join(["word"] * 400), "One. Two.")]}),
    ("glue_cola", "glue/cola", each("train", "validation", of=glue(1, "sentence")),
     each("train", "dev", of=[("A text.", "acceptable")])),
    ("glue_mnli", "glue/mnli", each("train", "validation_matched", of=glue(1, "premise", "hypothesis")),
     each("train", "dev", of=[("A text. ||| A text.", "neutral")])),
    ("glue_stsb", "glue/stsb", each("train", "validation", of=list(map(similar, LIKENESS))),
     {"dev": [("A. ||| B.", fifth) for fifth in ("0.0", "0.0", "0.2", "2.4", "3.8", "5.0", "5.0")]}),
    ("image_fashion_mnist", "fashion_mnist", {"train": fashion(3), "test": fashion(2)},
     {"test": [(0, "t-shirt"), (1, "trouser")]}),
    ("translate_enro_wmt32k", "wmt16_translate/ro-en", each("train", "validation", "test", of=[MEETING]),
     each("train", "dev", "test", of=[(MEETING["en"], MEETING["ro"])])),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dataset", "stored", "samples"), TFDS, ids=[name for name, *_ in TFDS])
def test_data_sets_of_tfds_give_the_samples_of_each_split(
    tmp_path, drawn, prepared_tfds, name, dataset, stored, samples
):
    prepared_tfds(tmp_path, dataset, stored)
    for split, expected in samples.items():
        found = sorted(plain(sample) for sample in drawn(name, split))
        assert (len(found) if isinstance(expected, int) else found) == expected


@pytest.mark.parametrize("task", ["cola", "sst2", "mrpc", "qqp", "mnli", "qnli", "rte", "wnli"])
def test_glue_has_the_texts_and_classes_of_tfds(tmp_path, task):
    import tensorflow_datasets as tfds

    problem = get_problem(f"glue_{task}")
    builder = tfds.builder(problem.dataset, data_dir=tmp_path)
    assert problem.class_labels == tuple(builder.info.features["label"].names)
    assert set(builder.info.features) == {*problem.sides, "label", "idx"}


def test_imagenet_is_cut_to_its_middle_and_named_by_tfds(source, prepared_tfds):
    left_and_right = np.zeros((20, 40, 3), np.uint8)
    left_and_right[:, 10:30] = 200
    example = {"image": left_and_right, "label": 1, "file_name": "a.jpg"}
    prepared_tfds(source.tmp_dir, "imagenet2012", each("train", "validation", "test", of=[example]))
    problem = get_problem("image_imagenet32")
    assert declared_spec(problem).targets.vocab_size == 1000
    problem.with_encoders(problem.build_encoders(source))
    assert problem.spec().targets.vocab_size == 1000
    [sample] = problem.generate_samples("dev", source)
    [encoded] = problem.encode_samples([sample])
    assert encoded["inputs"].shape == (32, 32, 3)
    assert encoded["inputs"].min() > 150  # JPEG smears a little; squashed, half of it would be black
    assert sample["targets"] == problem.decode_target(encoded["targets"]) == "n01443537"
    with refused("mine:", "nowhere:"):
        class_names("mine", "nowhere", "label", source)


def captioned(number, image, *captions):
    captions = [{"id": number + place, "text": text} for place, text in enumerate(captions)]
    return {"image": image, "image/filename": f"{number}.jpg", "image/id": number, "captions": captions, "objects": []}


OF_COCO = ("train", "val", "test", "restval")


def test_captions_come_with_their_photograph(source, drawn, prepared_tfds):
    example = captioned(1, np.full((30, 50, 3), 90, np.uint8), "A cat .\n", " Two  cats.")
    prepared_tfds(source.tmp_dir, "coco_captions/2014", each(*OF_COCO, of=[example]))
    samples = drawn("image_ms_coco_captions", "dev")
    assert [sample["targets"] for sample in samples] == ["A cat .", "Two cats."]
    problem = get_problem("image_ms_coco_captions", {"vocab_kind": "byte"})
    problem.with_encoders(problem.build_encoders(source))
    encoded = problem.encode_samples(samples)
    assert encoded[0]["inputs"].shape == (128, 128, 3)
    assert problem.decode_target(encoded[1]["targets"]) == "Two cats."
    spec = problem.spec()
    assert (list(spec.features), spec.shared_vocabulary) == (["inputs", "targets"], False)
    assert (spec.inputs.kind.value, spec.targets.kind.value) == ("image", "tokens")


NOISE = np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize(("problem", "dataset", "examples"), [
    ("image_ms_coco_captions", "coco_captions/2014",
     each(*OF_COCO, of=[captioned(n, NOISE, f"WORD {n}") for n in range(8)])),
    ("librispeech_clean_small", "librispeech",
     {"train_clean100": [{"speech": np.full(1600, n), "text": f"WORD {n}", "speaker_id": 1, "chapter_id": 1,
                          "id": f"1-1-{n}"} for n in range(8)]}),
])  # fmt: skip
def test_a_vocabulary_is_learnt_from_all_texts_however_large_images_and_sounds_are(
    tmp_path, prepared_tfds, problem, dataset, examples
):
    prepared_tfds(tmp_path, dataset, examples)
    source = Source(tmp_path, random.Random(0), enough_bytes=8 * len("WORD 0"))
    found = get_problem(problem).generate_samples("train", source)
    assert {sample["targets"] for sample in found} == {f"WORD {n}" for n in range(8)}
    assert source.skipped == 0
