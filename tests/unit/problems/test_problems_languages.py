"""Language codes around texts, and tags at the start of inputs."""

import contextlib
import io
import shutil

import numpy as np
import pytest
import sentencepiece

from t2t.data.generation.generate import generate
from t2t.data.reading.eval_batches import EvalBatches
from t2t.problems.text_files import Text2TextFiles
from t2t.problems.text_problems import Text2Text
from t2t.problems.translation import TranslationFiles
from t2t.problems.variants import VariantProblem
from t2t.registry import PROBLEMS
from t2t.runs.config import RunConfig
from t2t.runs.data import learn_shared_vocabulary, open_data
from t2t.runs.names import get_problem
from t2t.specs import EOS_ID, UNK_ID
from t2t.text.encoder import LanguageCodes
from t2t.text.imported import PieceTableEncoder
from t2t.text.sentencepiece import SentencePieceEncoder
from t2t.text.tags import tagged_languages
from t2t.text.vocabulary_files import read_vocabulary
from t2t.text.words import TokenEncoder, WordListEncoder
from tests.errors import refused
from tests.registrations import registered
from tests.stores import memory_store

LINES = {"source": ["one two", "three", "two two one"], "target": ["eins zwei", "drei", "zwei zwei eins"]}


def encoder_of(**places):
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for lines in LINES.values() for line in lines] * 5), model_writer=content,
        vocab_size=40, hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
    pieces = ["<pad>", "</s>", "<unk>", *(model.id_to_piece(n) for n in range(3, len(model))), "deu_Latn", "eng_Latn"]
    codes = {"deu_Latn": len(pieces) - 2, "eng_Latn": len(pieces) - 1}
    return PieceTableEncoder(content.getvalue(), pieces, languages=LanguageCodes(codes, **places))


@pytest.fixture
def raw(tmp_path):
    """Files of pairs and vocabularies."""
    for split in ("train", "dev"):
        for side, lines in LINES.items():
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def options_of(raw, encoder, **languages):
    encoder.save(raw / "codes.pieces")
    files = {f"{split}_{side}": str(raw / f"{split}.{side}") for split in ("train", "dev") for side in LINES}
    return files | {"vocab_file": str(raw / "codes.pieces")} | languages


def opened(name, options, raw):
    request = RunConfig(problem=name, problem_options=options, data_dir=str(raw / "data"))
    return open_data(request, get_problem(name, options))


def opened_with(raw, encoder):
    """Returns generated data from English to German, and their options."""
    options = options_of(raw, encoder, source_language="eng_Latn", target_language="deu_Latn")
    generate(Text2TextFiles(**options), raw / "data", raw, workers=1)
    return opened("text2text_files", options, raw), options


def rows(reader, feature):
    values, lengths = reader.read(np.arange(len(reader)), feature)
    assert lengths.tolist() == reader.lengths(feature).tolist()
    assert reader.longest[feature] == lengths.max()
    return [row.tolist() for row in np.split(values, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize(("source", "target"), [("begin", "begin"), ("end", "begin"), ("end", "none")])
def test_data_is_read_with_codes_around_texts(raw, source, target):
    encoder = encoder_of(source=source, target=target)
    codes = encoder.languages.ids
    data, options = opened_with(raw, encoder)
    stored = {side: [[*encoder.encode(line), 1] for line in lines] for side, lines in LINES.items()}
    en, de = [codes["eng_Latn"]], [codes["deu_Latn"]]
    for reader in data.readers.values():
        assert rows(reader, "inputs") == [en + row if source == "begin" else row + en for row in stored["source"]]
        assert rows(reader, "targets") == [(de if target == "begin" else []) + row for row in stored["target"]]
    marks = opened("text2text_files_rev", options, raw).problem.languages.marks()
    assert marks.output_start == (tuple(en) if target == "begin" else ())
    assert (marks.input_start or marks.input_end) == tuple(de)
    one_side = VariantProblem(get_problem("text2text_files", options), "_copy").with_encoders(
        {"inputs": encoder, "targets": encoder}
    )
    with refused("text2text_files_copy:"):
        one_side.languages.marks()


@pytest.mark.parametrize("width", [4, 1])
def test_a_text_that_is_cut_for_evaluation_keeps_its_codes(raw, width):
    reader = opened_with(raw, encoder_of(source="end", target="begin"))[0].readers["dev"]
    [(indices, batch)] = EvalBatches(reader, 100, max_length=width, ladder_step=1.0)
    for side, end in (("inputs", 2), ("targets", 1)):
        whole = rows(reader, side)
        assert max(map(len, whole)) > width
        cut = [(row[: max(0, width - end)] + row[-end:])[:width] if len(row) > width else row for row in whole]
        assert batch[side].tolist() == [(cut[index] + [0] * width)[:width] for index in indices]


def test_data_without_languages_is_not_made(raw):
    options = options_of(raw, encoder_of(), target_language="deu_Latn")
    with refused("text2text_files", "--source_language"):
        generate(Text2TextFiles(**options), raw / "data", raw, workers=1)
    assert not (raw / "data/text2text_files").exists()
    options |= {"source_language": "en"}
    with refused("--source_language=en:", "deu_Latn"):
        generate(Text2TextFiles(**options), raw / "data", raw, workers=1)


def test_other_languages_are_asked_for_unless_the_model_itself_begins_with_one():
    encoder = encoder_of()
    english, german = (encoder.languages.ids[language] for language in ("eng_Latn", "deu_Latn"))
    problem = Text2TextFiles(source_language="eng_Latn", target_language="deu_Latn")
    problem.with_encoders({"inputs": encoder, "targets": encoder})
    for asked, ids in (((), (english, german)), (("deu_Latn", "eng_Latn"), (german, english)), ((), (english, german))):
        problem.languages.use(*asked)
        assert problem.languages.marks() == ((ids[0],), (), (ids[1],))
    problem.with_encoders(dict.fromkeys(("inputs", "targets"), encoder_of(source="end", target="none")))
    assert problem.languages.marks() == ((), (english,), ())
    problem.languages.use("deu_Latn", "deu_Latn")
    with refused("--target_language=eng_Latn:"):
        problem.languages.use(target="eng_Latn")


# === Tags ===
WORDS = {"en": "one two three four", "de": "eins zwei drei vier", "fr": "un deux trois quatre"}
TAGS = {"language_tags": "en,de,fr"}


class TagEnde(TranslationFiles):
    """English to German."""

    name = "tag_ende"
    source_language, target_language, vocab_size = "en", "de", 300
    split_files = {"train": ("train.en", "train.de"), "dev": ("dev.en", "dev.de")}


class TagEnfr(TagEnde):
    """English to French."""

    name = "tag_enfr"
    source_language, target_language, vocab_size = "en", "fr", 400
    split_files = {"train": ("train.en", "train.fr"), "dev": ("dev.en", "dev.fr")}


class NoLanguage(Text2Text):
    """Text to text in no language that is named."""

    name = "no_language"

    def generate_samples(self, split, source):
        for n in range(20):
            yield {"inputs": f"a {n}", "targets": f"b {n}"}


@pytest.fixture
def texts(tmp_path):
    for split, size in (("train", 40), ("dev", 5)):
        for language, words in WORDS.items():
            lines = [" ".join(words.split()[: 1 + n % 4]) + f" {n}\n" for n in range(size)]
            (tmp_path / f"{split}.{language}").write_text("".join(lines))
    return tmp_path


@pytest.fixture
def registered_problems():
    """Registers the problems by name for a test."""
    with contextlib.ExitStack() as stack:
        for problem in (TagEnde, TagEnfr, NoLanguage):
            stack.enter_context(registered(PROBLEMS, problem.name, problem))
        yield


def opened_with_tags(folder, problem, **options):
    return open_data(RunConfig(problem=problem.name, problem_options=options, data_dir=str(folder)), problem)


def rows_of(reader, feature):
    values, lengths = reader.read(np.arange(len(reader)), feature)
    assert lengths.tolist() == reader.lengths(feature).tolist()
    return [row.tolist() for row in np.split(values, np.cumsum(lengths)[:-1])]


def test_inputs_begin_with_the_tag_of_the_target_language_in_both_directions(texts, registered_problems):
    generate(TagEnde(**TAGS), texts / "data", texts, workers=1)
    forth = opened_with_tags(texts / "data", get_problem("tag_ende", TAGS), **TAGS)
    back = opened_with_tags(texts / "data", VariantProblem(get_problem("tag_ende", TAGS), "_rev"), **TAGS)
    tags = tagged_languages(forth.problem.encoders["inputs"])
    sides = {"en": rows_of(back.readers["train"], "inputs"), "de": rows_of(forth.readers["train"], "targets")}
    assert rows_of(forth.readers["train"], "inputs") == [[tags["de"], *row] for row in sides["en"]]
    assert rows_of(back.readers["train"], "targets") == [[tags["en"], *row] for row in sides["de"]]
    assert forth.readers["train"].longest["inputs"] == max(len(row) + 1 for row in sides["en"])
    assert forth.readers["train"].longest["targets"] == max(map(len, sides["de"]))
    indices = np.array([7, 3, 3])
    assert [len(row) for row in np.array(rows_of(forth.readers["train"], "inputs"), object)[indices]] == (
        forth.readers["train"].lengths("inputs", indices).tolist()
    )


def test_another_language_is_asked_for_by_its_tag(texts, registered_problems):
    generate(TagEnde(**TAGS), texts / "data", texts, workers=1)
    problem = opened_with_tags(texts / "data", get_problem("tag_ende", TAGS), **TAGS).problem
    tags = tagged_languages(problem.encoders["inputs"])
    assert problem.languages.marks() == ((tags["de"],), (), ())
    problem.languages.use(target="fr")
    assert problem.languages.marks() == ((tags["fr"],), (), ())
    with refused("--target_language=it:", "<2it>;", "<2en>"):
        problem.languages.use(target="it")
    with refused("--source_language=en:", "tag_ende"):
        problem.languages.use("en")
    assert problem.languages.marks().input_start == (tags["fr"],)
    with refused("--target_language=fr:", "tag_ende", "--language_tags"):
        get_problem("tag_ende").languages.use(target="fr")


TAGGED_TEXTS = ["<2fr> one two", "one<2de>", " <2en><2fr>  <2it> \u2581", "plain", ""]


@pytest.mark.parametrize("kind", ["sentencepiece", "token", "word_list"])
def test_a_text_spells_no_tag_and_reads_as_before(kind, tmp_path):
    tags = ["<2en>", "<2de>", "<2fr>"]
    encoder = {
        "sentencepiece": lambda: SentencePieceEncoder.build(["one two 12 <2en>"] * 9, 300, tags),
        "token": lambda: TokenEncoder(["one", *tags, "two"]),
        "word_list": lambda: WordListEncoder(["<pad>", "<EOS>", "one", *tags, "two", "UNK"]),
    }[kind]()
    own, ids = TagEnde().with_encoders(dict.fromkeys(("inputs", "targets"), encoder)), tagged_languages(encoder)
    problem = TagEnde(**TAGS).with_encoders(dict.fromkeys(("inputs", "targets"), encoder))
    reserving = problem.encoders["inputs"]
    assert problem.encoders["targets"] is reserving
    assert reserving.fingerprint == encoder.fingerprint
    assert problem.languages.marks().input_start == (ids["de"],)
    rows = reserving.encode_batch(TAGGED_TEXTS)
    assert not set(ids.values()) & {token for row in rows for token in row}
    assert [reserving.encode(text) for text in TAGGED_TEXTS] == rows
    assert [row.tolist() for row in reserving.encode_ended(TAGGED_TEXTS)] == [[*row, EOS_ID] for row in rows]
    if encoder.lossless:
        assert [reserving.decode(row) for row in rows] == TAGGED_TEXTS
    else:
        assert rows[0] == [encoder.unknown_id, *encoder.encode("one two")]
    # Without the option, tags are a part of the texts, as any piece is.
    assert ids["fr"] in own.encoders["inputs"].encode("<2fr> one")


def test_data_has_no_tags_of_its_texts(texts, registered_problems):
    for side, lines in (("en", TAGGED_TEXTS), ("de", reversed(TAGGED_TEXTS))):
        (texts / f"train.{side}").write_text("".join(f"x {line}\n" for line in lines))
    generate(TagEnde(**TAGS), texts / "data", texts, workers=1)
    found = opened_with_tags(texts / "data", get_problem("tag_ende", TAGS), **TAGS)
    tags, reader = set(tagged_languages(found.problem.encoders["inputs"]).values()), found.readers["train"]
    for feature, count in (("inputs", 1), ("targets", 0)):
        assert [len(tags & set(row)) for row in rows_of(reader, feature)] == [count] * len(TAGGED_TEXTS)


@pytest.mark.parametrize(("problem", "options", "names"), [
    (NoLanguage, TAGS, ["no_language"]),
    (TagEnde, {"language_tags": "en,fr"}, ["tag_ende", "<2de>;", "<2en>"]),
    (TagEnde, TAGS | {"vocab_kind": "word_list"}, ["word_list"]),
    (TagEnde, TAGS | {"vocab_kind": "byte"}, ["byte", "<2de>"]),
])  # fmt: skip
def test_tags_are_refused_where_there_are_none_or_where_they_would_change(
    texts, registered_problems, problem, options, names
):
    with refused(*names):
        generate(problem(**options), texts / "data", texts, workers=1)
    assert not (texts / "data" / problem.name).exists()
    with refused("--language_tags=en,de,fr", "--subword_sampling=0.1"):
        TagEnde(**TAGS, subword_sampling=0.1)
    for suffix in ("_copy", "_masked"):
        with refused(f"tag_ende{suffix}:", "--language_tags=en,de,fr"):
            VariantProblem(get_problem("tag_ende", TAGS), suffix)


def test_one_vocabulary_is_learned_from_all_problems_and_kept(texts, registered_problems):
    asked = RunConfig(
        problem="tag_ende-tag_ende_rev-tag_enfr", data_dir=str(texts / "data"), tmp_dir=str(texts),
        problem_options=TAGS | {"vocab_size": 350},
    )  # fmt: skip
    file = texts / "deep" / "shared.spm"
    request = learn_shared_vocabulary(asked, str(file))
    assert request.problem_options == TAGS | {"vocab_file": str(file)}
    encoder = read_vocabulary(file)
    assert encoder.vocab_size <= 350
    assert list(tagged_languages(encoder)) == ["en", "de", "fr"]
    for word in ("one", "eins", "un"):
        assert len(encoder.encode(word)) == 1, word
    content = file.read_bytes()
    file.unlink()
    assert learn_shared_vocabulary(asked, str(file)) == request
    assert file.read_bytes() == content
    (texts / "train.de").write_text("anders\n")
    assert learn_shared_vocabulary(asked, str(file)) == request
    assert file.read_bytes() == content


def test_each_file_is_cut_into_shards_once_for_one_vocabulary(texts, registered_problems, cuts):
    class Both(TagEnde):
        """Two corpora, each of them a shard."""

        name = "tag_both"
        split_files = {"train": ("train.en", "train.de", "dev.en", "dev.de"), "dev": ("dev.en", "dev.de")}

    with registered(PROBLEMS, "tag_both", Both):
        asked = RunConfig(
            problem="tag_both-tag_enfr", data_dir=str(texts / "data"), tmp_dir=str(texts), problem_options=TAGS
        )
        learn_shared_vocabulary(asked, str(texts / "shared.spm"))
    assert cuts == [["train.en", "train.de"], ["dev.en", "dev.de"], ["train.en", "train.fr"]]


def test_one_vocabulary_is_learned_from_files_in_a_store(texts, registered_problems, tmp_path, monkeypatch):
    of_files = {"train_source": "train.en", "train_target": "train.de", "dev_source": "dev.en", "dev_target": "dev.de"}
    with memory_store(monkeypatch, tmp_path / "cache") as store:
        store.files.put(str(texts), "/b/raw", recursive=True)
        for problem, folder, options in [
            ("tag_ende", "memory://b/raw", {}),
            ("text2text_files", "", {name: f"memory://b/raw/{file}" for name, file in of_files.items()}),
        ]:
            asked = RunConfig(problem=problem, data_dir=str(tmp_path), tmp_dir=folder, problem_options=options)
            file = tmp_path / problem / "shared.spm"
            learn_shared_vocabulary(asked, str(file))
            assert len(read_vocabulary(file).encode("eins")) == 1
            shutil.rmtree(tmp_path / "cache")


def test_a_vocabulary_is_named_once_and_of_text(texts, registered_problems):
    asked = RunConfig(problem="tag_ende", data_dir=str(texts), problem_options={"vocab_file": "x.spm"})
    with refused("--shared_vocab_file=y.spm", "--vocab_file:"):
        learn_shared_vocabulary(asked, "y.spm")
    (texts / "there.spm").touch()
    asked = RunConfig(problem="tag_ende", data_dir=str(texts), problem_options={"vocab_file": ""})
    assert learn_shared_vocabulary(asked, f"{texts}/there.spm").problem_options == {"vocab_file": f"{texts}/there.spm"}
    with refused("--shared_vocab_file=", "image_mnist_gen"):
        learn_shared_vocabulary(RunConfig(problem="image_mnist_gen", data_dir=str(texts)), str(texts / "y.spm"))


@pytest.fixture(params=["speech_generate_files", "parsing_trees"])
def words(request, texts):
    """A problem of files and its options; of its sides, only the inputs are words, of which the only one is `cat`."""
    side, line = {
        "speech_generate_files": ("file", "cat.wav\tcat\n"), "parsing_trees": ("trees", "(TOP (NP (NN cat)))\n")
    }[request.param]  # fmt: skip
    (texts / "words").write_text(line)
    (texts / "cat.wav").write_bytes(b"")
    return request.param, dict.fromkeys((f"train_{side}", f"dev_{side}"), str(texts / "words"))


def test_tags_are_refused_where_no_option_names_the_target_language(texts, words):
    problem, files = words
    with refused("--language_tags=en,de,fr:", problem, "--target_language"):
        generate(get_problem(problem, files | TAGS), texts / "data", texts, workers=1)
    assert not (texts / "data" / problem).exists()


def test_it_is_learned_from_words_only(texts, words):
    problem, files = words
    asked = RunConfig(problem=problem, data_dir=str(texts), problem_options=files | {"vocab_kind": "token"})
    learn_shared_vocabulary(asked, str(texts / "words.tokens"))
    encoder = read_vocabulary(texts / "words.tokens")
    assert [encoder.piece(number) for number in range(UNK_ID + 1, encoder.vocab_size)] == ["cat"]
