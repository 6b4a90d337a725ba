"""Attention figures as data: the page has the model's numbers, whatever the texts contain."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from t2t.features.treebank_trees import parse_tree
from t2t.files.lines import LineSource
from t2t.hparams.groups import DecodeHParams
from t2t.hparams.lstm import LstmHParams
from t2t.hparams.transformer import TransformerHParams
from t2t.inference.attention import attention_rollout
from t2t.inference.translator import Translator
from t2t.models.lstm import LstmSeq2seq
from t2t.models.transformer import Transformer
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.parsing import ParsingTrees
from t2t.specs import EOS_ID
from t2t.specs.features import FeatureKind
from t2t.studio.figures import figure_of, tree_json, write_attention_page
from t2t.studio.page import figures_page, hash_source
from t2t.text.label import LabelEncoder
from t2t.text.words import TokenEncoder
from tests.builders import randomise
from tests.errors import refused
from tests.letters import WORDS, Letters, sharing

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)">&amp;\u2028'


def unpacked(text):
    return np.frombuffer(base64.b64decode(text), "<u2") / 65535


def test_the_numbers_of_a_picture_are_the_models(translator):
    looked = translator.attend("a b c", "d e")
    rollouts = attention_rollout(looked.maps).values()
    maps = figure_of(translator, "A title", "a b c", "d e")["maps"]
    assert [one["name"] for one in maps] == [
        "Encoder self-attention", "Decoder self-attention", "Encoder-decoder attention",
    ]  # fmt: skip
    for one, seen, rollout in zip(maps, looked.maps.values(), rollouts, strict=True):
        assert (one["queries"], one["keys"], one["heads"]) == ([*seen.queries], [*seen.keys], 2)
        found = unpacked(one["weights"]).reshape(seen.weights.shape)
        np.testing.assert_allclose(found, seen.weights, atol=1 / 65535)
        np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-4)
        np.testing.assert_allclose(unpacked(one["rollout"]).reshape(rollout.shape), rollout, atol=1 / 65535)
    assert maps[0]["layers"] == ["1: encoder/layer_0"]


def test_pieces_have_their_probabilities_words_and_links(translator):
    figure = figure_of(translator, "A title", "a b c", "d e")
    ids = [*WORDS.encode("d e"), EOS_ID]
    logits_TV = np.asarray(
        translator.model({"inputs": np.array([[*WORDS.encode("a b c"), 1]]), "targets": np.array([ids])})
    )[0].astype(float)
    probabilities_TV = np.exp(logits_TV) / np.exp(logits_TV).sum(axis=-1, keepdims=True)
    expected = np.log(probabilities_TV[np.arange(len(ids)), ids])
    np.testing.assert_allclose([piece["log_prob"] for piece in figure["pieces"]], expected, rtol=1e-4)
    assert figure["log_prob"] == pytest.approx(expected.sum(), rel=1e-4)
    (score,) = translator.score([("a b c", "d e")])
    (best,) = translator.translate(["a b c"])[0]
    assert figure["log_prob"] == pytest.approx(score, rel=1e-4)
    assert figure_of(translator, "", "a b c")["log_prob"] == pytest.approx(best.log_prob, rel=1e-4)
    assert [(piece["id"], piece["piece"], piece["word"]) for piece in figure["pieces"]] == [
        (ids[0], "d", 0), (ids[1], "e", 1), (EOS_ID, WORDS.piece(EOS_ID), None),
    ]  # fmt: skip
    assert figure["links"] == list(translator.align([("a b c", "d e")])[0])
    assert [target for _, target in sorted(figure["links"], key=lambda link: link[1])] == [0, 1]


def test_a_model_without_attention_says_so_and_shows_its_output():
    problem = Letters().with_encoders(dict.fromkeys(Letters().text_features, WORDS))
    model = randomise(LstmSeq2seq(LstmHParams(hidden_size=4, num_hidden_layers=1), problem.spec()))
    translator = Translator(problem, model, DecodeHParams(beam_size=1, extra_length=3))
    figure = figure_of(translator, "A title", "a b")
    assert figure["maps"] is None
    assert figure["note"].startswith("model lstmseq2seq: none of its layers attends")
    assert figure["target"] == translator.translate(["a b"])[0][0].text
    ids = [*WORDS.encode("c d"), EOS_ID]
    assert figure_of(translator, "A title", "a b", ids)["target"] == "c d"
    for given in ("c d", ids):
        (score,) = translator.score([("a b", "c d")])
        assert figure_of(translator, "A title", "a b", given)["log_prob"] == pytest.approx(score, rel=1e-4)


def test_nodes_of_a_tree_name_the_one_above_them():
    found = tree_json(parse_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"))
    assert found["labels"] == ["S", "NP", "DT", "A", "NN", "dog", "VP", "VBZ", "runs"]
    assert found["parents"] == [-1, 0, 1, 2, 1, 4, 0, 6, 7]
    assert [label for label, is_word in zip(found["labels"], found["words"], strict=True) if is_word] == [
        "A", "dog", "runs",
    ]  # fmt: skip


SMALL = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 1, "max_length": 16}


def test_parsing_problems_draw_the_tree_of_what_is_written_or_given():
    problem = ParsingTrees(train_trees="-", dev_trees="-")
    labels = TokenEncoder(["S", "NP", "DT", "NN", "/NP", "VP", "VBZ", "/VP", "/S"])
    problem.with_encoders({"inputs": TokenEncoder(["A", "dog", "runs"]), "targets": labels})
    model = randomise(Transformer(TransformerHParams(**SMALL), problem.spec()))
    translator = Translator(problem, model, DecodeHParams(beam_size=1, extra_length=3))
    figure = figure_of(translator, "A title", "A dog runs", "S NP DT NN /NP VP VBZ /VP /S")
    assert figure["tree"]["text"] == "(TOP (S (NP (DT A) (NN dog)) (VP (VBZ runs))))"
    in_brackets = figure_of(translator, "A title", "A dog runs", figure["tree"]["text"])
    assert in_brackets == figure | {"target": figure["tree"]["text"]}
    written = figure_of(translator, "A title", "A dog runs")
    assert written["tree"]["text"] == written["target"] == translator.translate(["A dog runs"])[0][0].text


def test_classes_have_their_probabilities():
    class Colours(Letters):
        def spec(self):
            spec = super().spec()
            targets = spec.targets.__class__(kind=FeatureKind.LABEL, vocab_size=3)
            return spec.__class__(name="colours", features={"inputs": spec.inputs, "targets": targets})

    problem = Colours().with_encoders({"inputs": WORDS, "targets": LabelEncoder(["red", "green", "<b>"])})
    model = randomise(TransformerEncoder(TransformerHParams(**SMALL), problem.spec()))
    figure = figure_of(Translator(problem, model, DecodeHParams()), "A title", "a b c")
    logits = np.asarray(model({"inputs": np.array([[*WORDS.encode("a b c"), 1]], np.int32)}))[0].astype(float)
    expected = np.exp(logits) / np.exp(logits).sum()
    found = {one["name"]: one["probability"] for one in figure["classes"]}
    np.testing.assert_allclose([found[name] for name in ("red", "green", "<b>")], expected, rtol=1e-4)
    assert figure["target"] == figure["classes"][0]["name"]
    assert [one["name"] for one in figure["maps"]] == ["Encoder self-attention"]


class Sounds(Letters):
    """A problem whose outputs are separate files."""

    output_suffix = ".wav"

    def output_file(self, output):
        return f"the sound of {output}".encode()


def test_an_output_that_is_a_file_is_in_the_figure(translator):
    problem = Sounds().with_encoders(dict.fromkeys(("inputs", "targets"), WORDS))
    figure = figure_of(sharing(translator, problem), "A title", "a b", "d e")
    sound = base64.b64encode(b"the sound of d e").decode()
    assert figure["media"] == {"kind": "audio", "url": f"data:audio/wav;base64,{sound}", "note": ""}
    assert "media-src data:" in Elements(figures_page("A title", [figure])).policy


class Elements(HTMLParser):
    """Parses a page like a browser: its elements and scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.scripts, self.policy, self.addresses = [], [], None, []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.found.append(tag)
        self.addresses += [attributes[name] for name in ("src", "href", "action") if name in attributes]
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag == "script":
            self.scripts.append([attributes.get("type"), ""])

    def handle_endtag(self, tag):
        self.found.append(f"/{tag}")

    def handle_data(self, data):
        if self.found and self.found[-1] == "script":
            self.scripts[-1][1] += data


def test_hostile_text_stays_text_and_scripts_never_read_it_as_markup():
    figure = {"title": HOSTILE, "source": HOSTILE, "target": HOSTILE, "note": HOSTILE, "maps": None}
    page = Elements(figures_page(HOSTILE, [figure]))
    (kind, data), (plain, script) = page.scripts
    assert (kind, plain) == ("application/json", None)
    assert json.loads(data) == [figure]
    assert not set(data) & set("<>&"), "browsers also end a script at `</script `, which this parser does not"
    assert "img" not in page.found
    assert page.addresses == []
    assert f"script-src {hash_source(script)}" in page.policy
    assert "default-src 'none'" in page.policy
    script = Elements(figures_page("A title", [])).scripts[1][1]
    markup = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|https?://(?!www\.w3)"
    assert not re.search(markup, script)


def test_a_page_of_lines_has_a_figure_for_each(translator, tmp_path):
    (tmp_path / "lines").write_text("a b\td e\n\nc\n")
    assert write_attention_page(translator, "A title", LineSource(str(tmp_path / "lines")), tmp_path / "page.html") == 2
    figures = json.loads(Elements((tmp_path / "page.html").read_text()).scripts[0][1])
    best = translator.translate(["c"])[0][0].text
    assert [(one["source"], one["target"]) for one in figures] == [("a b", "d e"), ("c", best)]


@pytest.mark.parametrize(("lines", "about"), [("", "0 100"), ("a\n" * 101, "101 100"), ("a\nb\tc\td\n", "2 3")])
def test_lines_that_cannot_be_drawn_are_refused_and_nothing_is_written(translator, tmp_path, lines, about):
    (tmp_path / "lines").write_text(lines)
    with refused(f"{tmp_path}/lines:", *about.split()):
        write_attention_page(translator, "A title", LineSource(str(tmp_path / "lines")), tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
