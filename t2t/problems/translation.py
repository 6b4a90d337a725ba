"""Translation from parallel text files that the problem names and the user provides.

A problem for a corpus that users fetch themselves takes a few lines::

    @register_problem
    class TranslateNlsvNews(TranslationFiles):
        source_language, target_language = "nl", "sv"
        split_files = {
            "train": ("news.train.nl.gz", "news.train.sv.gz"),
            "dev": ("news.dev.nl", "news.dev.sv"),
        }

Multi30k: descriptions of photographs in English, German and French; 29,000 training pairs.

One instance:
    inputs   A man in a yellow jacket is walking two dogs along a snowy path.
    targets  Ein Mann in einer gelben Jacke geht mit zwei Hunden einen verschneiten Weg entlang.

Raw text, neither lower-cased nor tokenised: train 29,000 pairs, val 1,014, test_2016_flickr 1,000.
Source: Elliott, Frank, Sima'an and Specia 2016, "Multi30K: Multilingual English-German Image Descriptions"; French by
Elliott, Frank, Barrault, Bougares and Specia 2017; task 1, raw, of https://github.com/multi30k/dataset.
Licence: for non-commercial research and education, as for the descriptions of Flickr30k.

Parallel corpora of Tensor2Tensor other than WMT: talks in Vietnamese and Indonesian, news in Macedonian.

One instance of English to Vietnamese:
    inputs   I grew up in a small town by the sea .
    targets  Tôi lớn lên ở một thị trấn nhỏ bên bờ biển .

IWSLT'15 English-Vietnamese, TED talks: train 133,000 pairs, tokenised, dev tst2012 (1,553), test tst2013 (1,268).
IWSLT'17 English-Indonesian, TED talks, and the news of PANL-BPPT: train 109,335 and 24,024 pairs, tokenised, dev
tst2017plus (1,478).
SETimes English-Macedonian, news of South-East Europe, with the pairs of MULTEXT-East's "1984" as dev (4,986).
Source: Cettolo et al. 2015, "The IWSLT 2015 Evaluation Campaign", files of https://nlp.stanford.edu/projects/nmt/;
Cettolo et al. 2017, "Overview of the IWSLT 2017 Evaluation Campaign", and PAN Localization, both as files of
https://github.com/prasastoadi/parallel-corpora-en-id;
Tyers and Alperen 2010, "South-East European Times: A parallel corpus of Balkan languages", files of
http://nlp.ffzg.hr/resources/corpora/setimes/; Erjavec 2012, "MULTEXT-East", files of
https://github.com/stefan-it/nmt-en-mk.
Licence: TED talks CC BY-NC-ND 4.0; PANL-BPPT, SETimes and MULTEXT-East as their sites state.

English to German phrases about numbers: counting, ordinals, dates, clock times, prices, quantities, measures.

    inputs   "the train leaves at twenty-five past six"
    targets  "der Zug fährt um fünf vor halb sieben ab"

    inputs   "three euros and fifty cents"
    targets  "drei Euro fünfzig"

    inputs   "we got married on the third of March nineteen eighty-four"
    targets  "wir haben am dritten März neunzehnhundertvierundachtzig geheiratet"

The phrases are a part of this project, under its licence: `number_phrases/` holds a file of English TAB German for each
split. They were drawn from grammars, the seven kinds of phrases taking turns. Every English phrase has exactly one
translation, so exact match is a fair score.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from t2t.errors import UserError
from t2t.files.line_blocks import read_pairs
from t2t.files.lines import read_lines
from t2t.problems.archives import find_first_existing
from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.split_files import blocks_to_read, count_blocks
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, SPLITS, TARGETS, TEST, TRAIN


class Translation(Text2Text):
    """Text in one language to text in another, for plug-ins; subclasses set the languages."""

    translates = True


class TranslationFiles(Text2Text):
    """Translation from pairs of files in the folder of raw files; line n of one translates line n of the other."""

    translates = True

    split_files: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By split, the names of the source and the target file; of several corpora, one pair after the other. Each file is
    accepted with and without `.gz`."""
    _not_of_data = ("home",)
    home: ClassVar[str] = ""
    """Where users can get the files."""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.splits = tuple(split for split in SPLITS if split in cls.split_files)

    def shards(self, split: str, context: GenerationContext) -> int:
        """Returns the number of blocks into which the files of a split are cut."""
        return count_blocks(lambda: self._pairs(split, context), split, context)

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the pairs of lines of a split, or of one shard of it, in the files' order."""
        for sides in blocks_to_read(lambda: self._pairs(split, context), split, context):
            for source_line, target_line in read_pairs(sides, context.tally):
                yield {INPUTS: source_line, TARGETS: target_line}

    def _pairs(self, split: str, context: GenerationContext) -> list[list[Path]]:
        self.check_split(split)
        self.check_files(context.tmp_dir)
        paths = [path for name in self.split_files[split] if (path := locate(context.tmp_dir, name))]
        return [[source_path, target_path] for source_path, target_path in zip(paths[::2], paths[1::2], strict=True)]

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the files that exist, by their names in the folder, in which plain and packed files differ."""
        found = {name.removesuffix(".gz"): path for name in self.file_names() if (path := locate(tmp_dir, name))}
        return super().raw_files(tmp_dir) | {
            name + ".gz" * path.name.endswith(".gz"): path for name, path in found.items()
        }

    def requirements(self) -> str:
        """Returns the names of the files and where they come from."""
        names = ", ".join(self.file_names())
        return f"{names} (with or without .gz) in --tmp_dir" + (f"; from {self.home}" if self.home else "")

    def file_names(self) -> list[str]:
        """Returns the names of all files that are needed."""
        return [name for split in self.splits for name in self.split_files[split]]

    def check_files(self, folder: Path) -> None:
        """Raises UserError if files are missing from the folder of raw files."""
        names = self.file_names()
        missing = [name for name in names if locate(folder, name) is None]
        if missing:
            raise UserError(
                f"{self.name}: {len(missing)} of its {len(names)} raw files are missing from {folder}: "
                f"{', '.join(missing)}",
                "put them there (with or without .gz) or name their folder with --tmp_dir"
                + (f"; they come from {self.home}" if self.home else ""),
            )


def locate(folder: Path, name: str) -> Path | None:
    """Returns the path of a file under its name, or else with `.gz` added or removed; None if neither exists."""
    return find_first_existing(folder, [name, name.removesuffix(".gz") if name.endswith(".gz") else name + ".gz"])


def _multi30k(target: str) -> dict[str, Any]:
    stems = {TRAIN: "train", DEV: "val", TEST: "test_2016_flickr"}
    return {
        "target_language": target,
        "split_files": {split: (f"{stem}.en.gz", f"{stem}.{target}.gz") for split, stem in stems.items()},
        "home": "https://github.com/multi30k/dataset (data/task1/raw)",
        # Of 8,000 pieces, one in seven occurs less than ten times in the English and German training text; of 16,000,
        # two in three, and these shorten the text by no more than 6 %.
        "vocab_size": 8000,
    }


_STANFORD = "https://nlp.stanford.edu/projects/nmt/ (IWSLT'15 English-Vietnamese)"
_INDONESIAN_FILES = "https://github.com/prasastoadi/parallel-corpora-en-id (unpack its .tok.tgz files)"
_SETIMES = (
    "http://nlp.ffzg.hr/resources/corpora/setimes/ (setimes.en-mk.txt.tgz) and https://github.com/stefan-it/nmt-en-mk "
    "(MTE-1984-dev.enmk.tgz)"
)
_VIETNAMESE: dict[str, Any] = {
    "target_language": "vi",
    "split_files": {
        TRAIN: ("train.en", "train.vi"), DEV: ("tst2012.en", "tst2012.vi"), TEST: ("tst2013.en", "tst2013.vi"),
    },
    "home": _STANFORD,
}  # fmt: skip
_PANL_BPPT = ("ECO-{}-150Kw", "INT-{}-150Kw", "SCI-{}-100Kw", "SPO-{}-100Kw")
"""Parts of that corpus, of economics, world affairs, science and sport."""
_INDONESIAN: dict[str, Any] = {
    "target_language": "id",
    "split_files": {
        TRAIN: (
            "IWSLT17.train.en-id.tok.en", "IWSLT17.train.en-id.tok.id",
            *(f"PANL-BPPT-{part.format(side)}.tok.txt" for part in _PANL_BPPT for side in ("EN", "ID")),
        ),
        DEV: ("IWSLT17.TED.tst2017plus.en-id.tok.en", "IWSLT17.TED.tst2017plus.en-id.tok.id"),
    },
    "home": _INDONESIAN_FILES,
}  # fmt: skip
_MACEDONIAN: dict[str, Any] = {
    "target_language": "mk",
    "split_files": {
        TRAIN: ("setimes.en-mk.en.txt", "setimes.en-mk.mk.txt"), DEV: ("MTE1984-dev.en", "MTE1984-dev.mk"),
    },
    "home": _SETIMES,
}  # fmt: skip
_PIECES_32K: dict[str, Any] = {"vocab_size": 2**15}
_BYTES: dict[str, Any] = {"vocab_kind": "byte", "max_length": 1024}

_PROBLEMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("translate_ende_multi30k", "Descriptions of photographs, English to German (Multi30k, 29,000 pairs).",
     _multi30k("de")),
    ("translate_enfr_multi30k", "Descriptions of photographs, English to French (Multi30k, 29,000 pairs).",
     _multi30k("fr")),
    ("translate_envi_iwslt32k", "TED talks, English to Vietnamese (IWSLT'15, 133,000 pairs, 32k pieces).",
     _VIETNAMESE | _PIECES_32K),
    ("translate_enid_iwslt32k", "TED talks and news, English to Indonesian (IWSLT'17, 133,000 pairs, 32k pieces).",
     _INDONESIAN | _PIECES_32K),
    ("translate_enmk_setimes32k", "News, English to Macedonian (SETimes, 32k pieces).", _MACEDONIAN | _PIECES_32K),
    ("translate_enmk_setimes_characters", "News, English to Macedonian (SETimes, bytes).", _MACEDONIAN | _BYTES),
)  # fmt: skip
"""Name, summary and attributes of each."""

for _name, _summary, _attributes in _PROBLEMS:
    _attributes = {"source_language": "en", **_attributes}
    register_problem(_name)(subclass(TranslationFiles, _name, _summary, __name__, **_attributes))


PHRASES = Path(__file__).parent / "number_phrases"


@register_problem
class TranslateEndeNumbers(Text2Text):
    """English to German phrases about numbers, dates, times and prices; learnt in minutes."""

    splits = (TRAIN, DEV, TEST)
    vocab_size = 1024
    max_length = 128
    metrics = ("accuracy_per_sequence", "bleu", "accuracy")

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the 50,000 phrases of train, or the 1,000 of dev or test, in the files' order."""
        for line in read_lines(PHRASES / f"{split}.tsv.gz", context.tally):
            english, german = line.split("\t")
            yield {"inputs": english, "targets": german}
