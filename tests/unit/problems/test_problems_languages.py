"""Language codes around texts, in data and in decoding."""

import io

import numpy as np
import pytest
import sentencepiece

from t2t.data.eval_batches import EvalBatches
from t2t.data.generate import generate
from t2t.problems.text_files import Text2TextFiles
from t2t.problems.variants import VariantProblem
from t2t.runs.data import open_data
from t2t.runs.names import Request, get_problem
from t2t.text.language_codes import LanguageCodes
from t2t.text.piece_table import PieceTableEncoder
from tests.errors import refused

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
    request = Request(problem=name, problem_options=options, data_dir=str(raw / "data"))
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
    marks = opened("text2text_files_rev", options, raw).problem.language_marks()
    assert marks.output_start == (tuple(en) if target == "begin" else ())
    assert (marks.input_start or marks.input_end) == tuple(de)
    one_side = VariantProblem(get_problem("text2text_files", options), "_copy").with_encoders(
        {"inputs": encoder, "targets": encoder}
    )
    with refused("text2text_files_copy:"):
        one_side.language_marks()


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
        problem.use_languages(*asked)
        assert problem.language_marks() == ((ids[0],), (), (ids[1],))
    problem.with_encoders(dict.fromkeys(("inputs", "targets"), encoder_of(source="end", target="none")))
    assert problem.language_marks() == ((), (english,), ())
    problem.use_languages("deu_Latn", "deu_Latn")
    with refused("--target_language=eng_Latn:"):
        problem.use_languages(target="eng_Latn")
