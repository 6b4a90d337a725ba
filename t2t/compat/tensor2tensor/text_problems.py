"""Tensor2Tensor's problems of text, for plug-ins that subclass them, and its readers of text files."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from t2t.compat.tensor2tensor import generator_utils, problem, text_encoder

_PACKAGE = __name__.rpartition(".")[0]
lines_of_file = generator_utils.lines_of_file


class VocabType:
    """Kinds of vocabularies."""

    CHARACTER = "character"
    SUBWORD = "subwords"
    TOKEN = "tokens"


class Text2TextProblem(problem.Problem):
    """Text to text: `generate_samples` yields `{"inputs": str, "targets": str}`."""

    @property
    def vocab_type(self) -> str:
        """Kind of vocabulary, see `VocabType`."""
        return VocabType.SUBWORD if self.use_subword_tokenizer else VocabType.CHARACTER

    @property
    def use_subword_tokenizer(self) -> bool:
        """Whether texts are cut into subwords; of the first versions, later `vocab_type`."""
        return not self.is_character_level

    @property
    def is_character_level(self) -> bool:
        """Whether texts are cut into bytes; of the first versions, later `vocab_type`."""
        return False

    @property
    def approx_vocab_size(self) -> int:
        """About how many subwords to learn."""
        return int(getattr(self, "targeted_vocab_size", 2**15))

    @property
    def additional_reserved_tokens(self) -> list[str]:
        """Pieces to reserve besides padding and end of sequence."""
        return []

    @property
    def oov_token(self) -> str | None:
        """Name of the unknown word in a vocabulary of tokens."""
        return None

    @property
    def max_samples_for_vocab(self) -> int | None:
        """Most samples to learn the vocabulary from; None for all."""
        return None

    @property
    def packed_length(self) -> int | None:
        """Length of rows into which examples are packed; here the hparam `pack_dataset` packs."""
        return None

    packed_spacing = 0
    inputs_prefix = ""
    targets_prefix = ""

    @property
    def max_subtoken_length(self) -> int | None:
        """Longest subword; None for the vocabulary's own limit."""
        return None

    @property
    def vocab_filename(self) -> str:
        """Name of the vocabulary's file in the data folder."""
        other = self.use_vocab_from_other_problem
        if other is not None:
            return str(other.vocab_filename)
        if hasattr(self, "vocab_name") or type(self).vocab_file is not Text2TextProblem.vocab_file:
            return str(self.vocab_file)  # of the first versions
        if self.vocab_type == VocabType.SUBWORD:
            return f"vocab.{self.dataset_filename()}.{self.approx_vocab_size}.{VocabType.SUBWORD}"
        return f"vocab.{self.dataset_filename()}.{VocabType.TOKEN}"

    @functools.cached_property  # which problems may set, too
    def vocab_file(self) -> str:
        """The same in the first versions, made of `vocab_name` and the size."""
        name = getattr(self, "vocab_name", None)
        return f"{name}.{self.approx_vocab_size}" if name else self.vocab_filename

    @property
    def use_vocab_from_other_problem(self) -> Any:
        """A problem whose vocabulary is used; None for an own one."""
        return None

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no generate_samples")

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the training samples."""
        for number, sample in enumerate(self.generate_samples(data_dir, tmp_dir, problem.DatasetSplit.TRAIN), 1):
            if self.has_inputs:
                yield sample["inputs"]
            yield sample["targets"]
            if self.max_samples_for_vocab and number >= self.max_samples_for_vocab:
                break

    def get_or_create_vocab(self, data_dir: str, tmp_dir: str | None, force_get: bool = False) -> Any:
        """Returns the vocabulary: the file in the data folder, or else a new one, which is written there."""
        if self.vocab_type == VocabType.CHARACTER:
            return text_encoder.ByteTextEncoder()
        path = os.path.join(data_dir, self.vocab_filename)
        if self.vocab_type == VocabType.TOKEN:
            return text_encoder.TokenTextEncoder(path, replace_oov=self.oov_token)
        if self.vocab_type != VocabType.SUBWORD:
            raise ValueError(f"vocab_type {self.vocab_type!r}: it is one of VocabType")
        if force_get:
            return text_encoder.SubwordTextEncoder(path)
        return generator_utils.get_or_generate_vocab_inner(
            data_dir, self.vocab_filename, self.approx_vocab_size,
            self.generate_text_for_vocab(data_dir, tmp_dir or ""),
        )  # fmt: skip

    get_vocab = get_or_create_vocab

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the vocabulary of each text feature."""
        encoder = self.get_or_create_vocab(data_dir or "", None, force_get=True)
        return {"inputs": encoder, "targets": encoder} if self.has_inputs else {"targets": encoder}

    def generate_encoded_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as ids with an end of sequence."""
        generator = self.generate_samples(data_dir, tmp_dir, dataset_split)
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        return text2text_generate_encoded(
            generator, encoder, has_inputs=self.has_inputs, inputs_prefix=self.inputs_prefix,
            targets_prefix=self.targets_prefix,
        )  # fmt: skip

    def encoded_samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterable[Mapping[str, Any]]:
        """Returns ids, whoever makes them."""
        if hasattr(self, "generator"):
            return super().samples_of_split(data_dir, tmp_dir, split)
        return self.generate_encoded_samples(data_dir, tmp_dir, split)

    def samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterable[Mapping[str, Any]]:
        """Returns texts, or ids where the class makes these itself."""
        if hasattr(self, "generator"):
            return super().samples_of_split(data_dir, tmp_dir, split)
        makes_ids = not type(self).generate_encoded_samples.__module__.startswith(_PACKAGE)
        if makes_ids or self.inputs_prefix or self.targets_prefix:
            return self.generate_encoded_samples(data_dir, tmp_dir, split)
        return self.generate_samples(data_dir, tmp_dir, split)

    def eval_metrics(self) -> list[str]:
        """Returns the names of the metrics."""
        return [*super().eval_metrics(), "approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore"]


class QuestionAndContext2TextProblem(Text2TextProblem):
    """A question and a text to an answer: `generate_samples` yields `{"inputs": str, "context": str, "targets": str}`.

    Models here read one text: the question, the word `<EOQ>` and the context.
    """

    QUESTION_SEPARATOR = "<EOQ>"

    def samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterable[Mapping[str, Any]]:
        """Returns the samples with both texts as their inputs."""
        encoder = None
        for sample in super().samples_of_split(data_dir, tmp_dir, split):
            question, context = sample["inputs"], sample["context"]
            if isinstance(question, str):
                joined: Any = f"{question} {self.QUESTION_SEPARATOR} {context}"
            else:
                encoder = encoder or self.get_or_create_vocab(data_dir, tmp_dir)
                separator = encoder.encode(self.QUESTION_SEPARATOR)
                joined = [*text_encoder.strip_ids(question, [text_encoder.EOS_ID]), *separator, *context]
            yield {"inputs": joined, "targets": sample["targets"]}

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the training samples."""
        for number, sample in enumerate(self.generate_samples(data_dir, tmp_dir, problem.DatasetSplit.TRAIN), 1):
            yield from (sample["inputs"], sample["context"], sample["targets"])
            if self.max_samples_for_vocab and number >= self.max_samples_for_vocab:
                break

    def generate_encoded_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields the samples of a split as ids with an end of sequence, the context apart."""
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        for sample in super().generate_encoded_samples(data_dir, tmp_dir, dataset_split):
            yield {**sample, "context": [*encoder.encode(sample["context"]), text_encoder.EOS_ID]}


class Text2SelfProblem(Text2TextProblem):
    """Language models: `generate_samples` yields `{"targets": str}`."""

    @property
    def has_inputs(self) -> bool:
        """There is no source text."""
        return False

    def eval_metrics(self) -> list[str]:
        """Returns the names of the metrics."""
        return problem.Problem.eval_metrics(self)


class Text2ClassProblem(Text2TextProblem):
    """Text to class: `generate_samples` yields `{"inputs": str, "label": int}`."""

    @property
    def num_classes(self) -> int:
        """The number of classes; plug-ins say it."""
        raise NotImplementedError(f"{type(self).__name__} has no num_classes")

    def class_labels(self, data_dir: str) -> list[str]:
        """Returns the names of the classes by their numbers."""
        return [f"ID_{number}" for number in range(self.num_classes)]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the training samples."""
        for number, sample in enumerate(self.generate_samples(data_dir, tmp_dir, problem.DatasetSplit.TRAIN), 1):
            yield sample["inputs"]
            if self.max_samples_for_vocab and number >= self.max_samples_for_vocab:
                break

    def generate_encoded_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields ids of the text and the number of the class."""
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
            yield {"inputs": [*encoder.encode(sample["inputs"]), text_encoder.EOS_ID], "targets": [sample["label"]]}

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the vocabulary of the text, and the classes."""
        encoder = self.get_or_create_vocab(data_dir or "", None, force_get=True)
        return {"inputs": encoder, "targets": text_encoder.ClassLabelEncoder(self.class_labels(data_dir or ""))}

    def eval_metrics(self) -> list[str]:
        """Returns the names of the metrics."""
        return ["accuracy"]


class Text2RealProblem(Text2TextProblem):
    """Text to numbers: `generate_samples` yields `{"inputs": str, "targets": [float, ...]}`, `ntasks` of them."""

    @property
    def ntasks(self) -> int:
        """Numbers of an example."""
        return 1

    generate_text_for_vocab = Text2ClassProblem.generate_text_for_vocab

    def generate_encoded_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields ids of the text, and the numbers."""
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
            yield {**sample, "inputs": [*encoder.encode(sample["inputs"]), text_encoder.EOS_ID]}

    def feature_encoders(self, data_dir: str | None) -> dict[str, text_encoder.TextEncoder]:
        """Returns the vocabulary of the text; numbers are written in bytes."""
        return {**super().feature_encoders(data_dir), "targets": text_encoder.ByteTextEncoder()}

    def eval_metrics(self) -> list[str]:
        """Returns the names of the metrics."""
        return ["rmse"]


class TextConcat2ClassProblem(Text2ClassProblem):
    """Several texts to a class: `generate_samples` yields `{"inputs": [str, ...], "label": int}`.

    Models here read one text: they are joined by the word `$`.
    """

    CONCAT_TOKEN = "$"

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the training samples."""
        for texts in super().generate_text_for_vocab(data_dir, tmp_dir):
            yield from texts

    def generate_encoded_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields ids of the joined text and the number of the class."""
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        for sample in self.generate_samples(data_dir, tmp_dir, dataset_split):
            ids = encoder.encode(self._joined(sample["inputs"]))
            yield {"inputs": [*ids, text_encoder.EOS_ID], "targets": [sample["label"]]}

    def samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterable[Mapping[str, Any]]:
        """Returns the samples with one text as their inputs."""
        for sample in super().samples_of_split(data_dir, tmp_dir, split):
            yield {**sample, "inputs": self._joined(sample["inputs"])}

    def _joined(self, texts: Any) -> Any:
        """Returns several texts as one; one text, and ids, as they are."""
        are_texts = isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)
        return f" {self.CONCAT_TOKEN} ".join(texts) if are_texts else texts


class ChoppedTextProblem(Text2SelfProblem):
    """Language models of long texts, cut into pieces of `sequence_length` ids without an end of sequence."""

    @property
    def sequence_length(self) -> int:
        """Ids of an example."""
        raise NotImplementedError(f"{type(self).__name__} has no sequence_length")

    remainder_policy = "drop"
    max_chars_for_vocab = 10**7
    max_dev_chars = 10**7
    num_train_shards, num_dev_shards = 100, 1

    @property
    def dataset_splits(self) -> list[dict[str, Any]]:
        """Training and dev split."""
        return [
            {"split": problem.DatasetSplit.TRAIN, "shards": self.num_train_shards},
            {"split": problem.DatasetSplit.EVAL, "shards": self.num_dev_shards},
        ]

    def train_text_filepaths(self, tmp_dir: str) -> list[str]:
        """Returns the files of the training text; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no train_text_filepaths")

    def dev_text_filepaths(self, tmp_dir: str) -> list[str]:
        """Returns the files of the dev text; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no dev_text_filepaths")

    def filepath_to_unicode_strings(self, filepath: str) -> Iterator[str]:
        """Yields the texts of a file."""
        with open(filepath, encoding="utf-8", errors="replace") as file:
            yield file.read()

    def file_generator(
        self, filepaths: Iterable[str], max_chars_per_file: int | None = None, max_chars_total: int | None = None
    ) -> Iterator[str]:
        """Yields the texts of files, up to numbers of characters."""
        left = max_chars_total
        for path in filepaths:
            left_of_file = max_chars_per_file
            for text in self.filepath_to_unicode_strings(path):
                most = min((limit for limit in (left, left_of_file) if limit is not None), default=len(text))
                yield text[:most]
                left = None if left is None else left - len(text[:most])
                left_of_file = None if left_of_file is None else left_of_file - len(text[:most])
                if left == 0 or left_of_file == 0:
                    break
            if left == 0:
                return

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the training text, up to `max_chars_for_vocab`."""
        paths = self.train_text_filepaths(tmp_dir)
        return self.file_generator(paths, max_chars_total=self.max_chars_for_vocab)

    def generate_encoded_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields pieces of `sequence_length` ids."""
        trains = dataset_split == problem.DatasetSplit.TRAIN
        paths = self.train_text_filepaths(tmp_dir) if trains else self.dev_text_filepaths(tmp_dir)
        encoder = self.get_or_create_vocab(data_dir, tmp_dir)
        ids: list[int] = []
        for text in self.file_generator(paths, max_chars_total=None if trains else self.max_dev_chars):
            ids += encoder.encode(text)
            whole = len(ids) // self.sequence_length * self.sequence_length
            for start in range(0, whole, self.sequence_length):
                yield {"targets": ids[start : start + self.sequence_length]}
            ids = ids[whole:]
        if ids and self.remainder_policy == "pad":
            yield {"targets": ids}

    def samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterable[Mapping[str, Any]]:
        """Returns ids."""
        return self.generate_encoded_samples(data_dir, tmp_dir, split)


class DistributedText2TextProblem(Text2TextProblem):
    """Text to text from many files, which `train_text_filepaths` and its siblings name."""

    def input_files(self, dataset_split: str = problem.DatasetSplit.TRAIN) -> list[str]:
        """Returns the files of a split; plug-ins write it."""
        raise NotImplementedError(f"{type(self).__name__} has no input_files")

    def samples_of_split(self, data_dir: str, tmp_dir: str, split: str) -> Iterable[Mapping[str, Any]]:
        """Returns the samples of all files of the split."""
        return self.generate_samples(data_dir, tmp_dir, split, self.input_files(split))  # type: ignore[call-arg]

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields the texts of the training samples."""
        for sample in self.samples_of_split(data_dir, tmp_dir, problem.DatasetSplit.TRAIN):
            yield from (sample[name] for name in ("inputs", "targets") if name in sample)


class Text2textTmpdir(Text2TextProblem):
    """Text to text from four files in `tmp_dir`."""

    TRAIN_FILES = ("inputs.train.txt", "targets.train.txt")
    EVAL_FILES = ("inputs.eval.txt", "targets.eval.txt")
    TEST_FILES = ("inputs.test.txt", "targets.test.txt")

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[dict[str, Any]]:
        """Yields the pairs of lines of a split."""
        splits = problem.DatasetSplit
        files = {splits.TRAIN: self.TRAIN_FILES, splits.EVAL: self.EVAL_FILES, splits.TEST: self.TEST_FILES}
        inputs, targets = (os.path.join(tmp_dir, name) for name in files[dataset_split])
        return text2text_txt_iterator(inputs, targets)


class _Encoder(Protocol):
    def encode(self, s: str) -> list[int]: ...


def text2text_generate_encoded(
    sample_generator: Iterable[Mapping[str, Any]], vocab: _Encoder, targets_vocab: _Encoder | None = None,
    has_inputs: bool = True, inputs_prefix: str = "", targets_prefix: str = "",
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Yields samples of text as ids with an end of sequence."""
    for sample in sample_generator:
        found = dict(sample)
        if has_inputs:
            found["inputs"] = [*vocab.encode(inputs_prefix + sample["inputs"]), text_encoder.EOS_ID]
        found["targets"] = [*(targets_vocab or vocab).encode(targets_prefix + sample["targets"]), text_encoder.EOS_ID]
        yield found


def txt_line_iterator(txt_path: str) -> Iterator[str]:
    """Yields the lines of a text file, stripped."""
    return (line.strip() for line in lines_of_file(txt_path))


def txt_and_label_iterator(txt_path: str) -> Iterator[tuple[str, int]]:
    """Yields (text, number of its class) for lines whose last word is that number."""
    for line in lines_of_file(txt_path):
        text, _, label = line.strip().rpartition(" ")
        yield text, int(label)


def text2text_txt_iterator(source_txt_path: str, target_txt_path: str) -> Iterator[dict[str, str]]:
    """Yields the pairs of lines of two files as samples."""
    for inputs, targets in zip(txt_line_iterator(source_txt_path), txt_line_iterator(target_txt_path), strict=False):
        yield {"inputs": inputs, "targets": targets}


def text2text_distributed_txt_iterator(
    source_txt_path: Iterable[str], target_txt_path: Iterable[str]
) -> Iterator[dict[str, str]]:
    """Yields the pairs of lines of pairs of files."""
    for source, target in zip(source_txt_path, target_txt_path, strict=True):
        yield from text2text_txt_iterator(source, target)


def text2text_txt_tab_iterator(txt_path: str) -> Iterator[dict[str, str]]:
    """Yields the pairs of lines with a TAB between source and target; others are left out."""
    for line in txt_line_iterator(txt_path):
        if line and "\t" in line:
            inputs, targets = line.split("\t", 1)
            yield {"inputs": inputs.strip(), "targets": targets.strip()}


def text2self_txt_iterator(txt_path: str) -> Iterator[dict[str, str]]:
    """Yields the lines of a file as targets."""
    return ({"targets": line} for line in txt_line_iterator(txt_path))


def text2class_txt_iterator(
    source_txt_path: str, label_txt_path: str, class_strs: list[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yields the lines of a file with the classes on the lines of another: names of a list, or numbers."""
    numbers = {name: number for number, name in enumerate(class_strs or ())}
    for inputs, label in zip(txt_line_iterator(source_txt_path), txt_line_iterator(label_txt_path), strict=True):
        yield {"inputs": inputs, "label": numbers[label] if class_strs else int(label)}
