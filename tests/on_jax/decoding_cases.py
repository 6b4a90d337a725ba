"""Cases of decoding, scoring and evaluation with random weights, computed by the current Keras backend."""

import dataclasses
import functools

import numpy as np
from keras import ops

from t2t.hparams.groups import DecodeHParams
from t2t.inference.engine import DecodeRequest
from t2t.inference.evaluator import Evaluator
from t2t.inference.model_engine import ModelEngine, build_batch_search
from t2t.inference.search_steps import beam_tree, partial_outputs
from t2t.inference.shortlist import Shortlist
from t2t.models.classics.rctm import Rctm2
from t2t.models.ensemble import Ensemble
from t2t.models.lstm import LstmSeq2seqAttention
from t2t.models.transformer import Transformer
from t2t.models.transformer_cmlm import TransformerCmlm
from t2t.models.transformer_encoder import TransformerEncoder
from t2t.problems.parsing import ParsingTrees
from t2t.search.settings import SearchSettings
from t2t.specs import INPUTS, TARGETS
from t2t.specs.features import FeatureKind, FeatureSpec, ProblemSpec
from t2t.text.words import TokenEncoder
from tests.builders import batch, padded, randomise, rows, tiny_transformer, tokens_spec
from tests.letters import TEXTS, WORDS, letters, letters_alone, moods, translator_of

SOURCES = rows(np.random.default_rng(1), (5, 1, 8, 3, 7, 2, 6))
PICTURES = ProblemSpec(
    name="pictures",
    features={
        INPUTS: FeatureSpec(kind=FeatureKind.IMAGE, shape=(9, 7, 3)),
        TARGETS: FeatureSpec(kind=FeatureKind.LABEL, vocab_size=4),
    },
)
MANY = rows(np.random.default_rng(1), np.random.default_rng(0).integers(1, 9, 18))
"""Enough sentences that batches shrink during the search."""
HPARAMS = DecodeHParams(extra_length=6, decode_batch_size=4000)
SETTINGS = {
    "beam": SearchSettings(beam_size=4),
    "several best, coverage": SearchSettings(beam_size=3, only_best=False, coverage=0.2, penalty="power", alpha=1.0),
    "greedy": SearchSettings(beam_size=1),
    "constrained": SearchSettings(beam_size=3, min_length=3, no_repeat_ngram=2, eos_penalty=0.5),
    "samples": SearchSettings(method="sample", samples=3, seed=2**32 + 5, temperature=1.3),
    "samples of few": SearchSettings(method="sample", top_k=5, top_p=0.8, seed=7),
}


OF_ROWS = [
    dataclasses.replace(SETTINGS["samples of few"], temperature=0.5 + n, top_k=2 + n, top_p=0.95 - n / 10, seed=n)
    for n in range(len(SOURCES))
]
"""Settings of one structure for each of the sources."""
TERMS = {
    "phrases": [{"constraints": ["a"]}, {"constraints": ["a b"]}, {"constraints": ["a b", "c"]}],
    "lists": [{"choices": ["a", "b"]}, {"choices": ["a", "b c", "d e f"]}, {"avoid": ["a", "b c"]}],
}
"""Constraints of one kind, which share programs."""


def decoded(model, settings, sources=SOURCES, prefixes=None, shortlist=None, row_settings=None):
    """Returns ids, lengths and scores of every row, by name."""
    engine = ModelEngine(model)
    engine.read_shortlist = lambda: shortlist
    hparams = dataclasses.replace(HPARAMS, shortlist=shortlist is not None)
    seeds, found = 100 + np.arange(len(sources)), {}
    request = DecodeRequest(
        rows=sources, seeds=seeds, sentences=np.arange(len(sources)), settings=settings, hparams=hparams,
        prefixes=prefixes, row_settings=row_settings,
    )  # fmt: skip
    for indices, result in engine.decode(request):
        for place, index in enumerate(indices):
            ids = [row[:length] for row, length in zip(result.ids[place], result.lengths[place], strict=True)]
            found[f"{index} ids"] = np.concatenate(ids)
            found[f"{index} lengths"] = result.lengths[place]
            found[f"{index} scores"] = np.stack([result.scores[place], result.log_probs[place]])
    return found


def tiny(**changes):
    """Returns a Transformer of one layer with random weights, since programs are compiled for each of its layers."""
    return tiny_transformer(num_hidden_layers=1, **changes)


def searched(model, settings, prefix):
    """Ids and scores of one batch whose outputs all begin with a prefix."""
    search = build_batch_search(model, settings, HPARAMS.extra_length)
    result = search.search_batch(padded(SOURCES), np.arange(len(SOURCES), dtype=np.int32), prefix=prefix)
    found = {name: ops.convert_to_numpy(value) for name, value in result._asdict().items()}
    return found | {"ids": found["ids"][:, :, : found["lengths"].max()]}


def scored(model):
    """Log-probabilities of the tokens of every pair."""
    found = ModelEngine(model).score_tokens(SOURCES, SOURCES[::-1], HPARAMS)
    return {str(index): row for indices, of_rows in found for index, row in zip(indices, of_rows, strict=True)}


def translated(translator, texts=TEXTS, **changes):
    """Ids and log-probabilities of the outputs of texts."""
    hypotheses = [one for found in translator.translate(texts, **changes) for one in found]
    ids = {f"{n} ids": np.array(one.ids, np.int32) for n, one in enumerate(hypotheses)}
    return {**ids, "log_probs": np.array([one.log_prob for one in hypotheses])}


def aligned(model_class, **changes):
    """Links of words of outputs and inputs, the indices of both; and the outputs' ids."""
    translator = translator_of(letters(), model_class, model_class.hparams_class(hidden_size=8, **changes))
    found = translator.translate(TEXTS, alignments=True)
    links = {f"{n} links": np.array(one.alignment, np.int32) for n, (one, *_) in enumerate(found)}
    return links | {f"{n} ids": np.array(one.ids, np.int32) for n, (one, *_) in enumerate(found)}


def constrained(kind):
    """Outputs of one text with several constraints of a kind, from the same translator."""
    translator = translator_of(letters(), num_hidden_layers=1)
    found = [translated(translator, ["a b c"], n_best=2, constraints=[terms]) for terms in TERMS[kind]]
    return {f"{n} {name}": array for n, one in enumerate(found) for name, array in one.items()}


def evaluated(model, batches):
    """Returns all teacher-forced metrics; sizes of batches differ from those of compiled programs."""
    figures = Evaluator(model, [(np.arange(len(one[TARGETS])), one) for one in batches], None, ())()
    return {name: np.array(value) for name, value in figures.items()}


def traced():
    """Returns every hypothesis of a beam search, and the partial output texts after each step."""
    translator = translator_of(letters(), num_hidden_layers=1)
    nodes = beam_tree(translator, "a b c", beam_size=3)
    ids = {f"{n} ids": np.array(node.ids, np.int32) for n, node in enumerate(nodes)}
    texts = [text for one in partial_outputs(translator, "a b c d e", 2, beam_size=3) for text in one.texts]
    return {**ids, "log_probs": np.array([node.log_prob for node in nodes]), "texts": np.array(map_bytes(texts))}


def map_bytes(texts):
    """Returns the UTF-8 bytes of the joined texts, uint8."""
    return np.frombuffer("\n".join(texts).encode(), np.uint8)


def parsed():
    """Returns parse trees of the inputs."""
    labels = TokenEncoder(["NP", "/NP", "NN", "S", "/S", "DT"])
    problem = ParsingTrees()
    problem.name = "parsing_trees"
    return translated(translator_of(problem.with_encoders({INPUTS: WORDS, TARGETS: labels})), TEXTS, n_best=2)


def inputs_of(encoder, count):
    """Returns the ids of `count` random texts of 5 tokens, padded."""
    return padded(rows(np.random.default_rng(count), (5,) * count, encoder.vocab_size))


def pictures(count):
    """Returns random images."""
    return np.random.default_rng(count).integers(0, 256, (count, 9, 7, 3), np.uint8)


def small(model_class, spec=None, **changes):
    """Returns a small model with random weights."""
    given = {"hidden_size": 8, "num_hidden_layers": 1, "max_length": 32, **changes}
    return randomise(model_class(model_class.hparams_class(**given), spec or tokens_spec()), 3)


SHORTLIST = Shortlist(
    np.array([5, 9], np.int32), np.random.default_rng(2).integers(2, 13, (13, 2)).astype(np.int32), 13
)
CASES = {
    **{
        name: functools.partial(lambda one: decoded(tiny(), one), SETTINGS[name])
        for name in ("several best, coverage", "greedy", "constrained", "samples of few")
    },
    "many": lambda: decoded(tiny(), SETTINGS["beam"], MANY),
    "many samples": lambda: decoded(tiny(), SETTINGS["samples"], MANY),
    "rows sampled differently": lambda: decoded(tiny(), OF_ROWS[0], row_settings=OF_ROWS),
    "prefixes": lambda: decoded(tiny(), SETTINGS["beam"], prefixes=[[2 + n % 7] * (n % 4) for n in range(7)]),
    "samples of one batch that begin alike": lambda: searched(tiny(), SETTINGS["samples"], (7, 3)),
    "a shortlist": lambda: decoded(tiny(), SETTINGS["beam"], shortlist=SHORTLIST),
    "an ensemble": lambda: decoded(Ensemble([tiny(), tiny(seed=2)]), SETTINGS["several best, coverage"]),
    "recurrent": lambda: decoded(small(LstmSeq2seqAttention), SETTINGS["beam"]),
    "convolutions": lambda: decoded(small(Rctm2), SETTINGS["beam"]),
    "windows": lambda: decoded(tiny(self_attention_window=5, relative_keys=3), SETTINGS["beam"]),
    "relative positions": lambda: decoded(tiny(positions="relative", max_relative_position=2), SETTINGS["beam"]),
    **{f"constraints, {kind}": functools.partial(constrained, kind) for kind in TERMS},
    "alignments": lambda: aligned(Transformer, num_heads=2, num_hidden_layers=11),
    "alignments of a recurrent decoder": lambda: aligned(LstmSeq2seqAttention),
    "mask-predict": lambda: translated(
        translator_of(letters(), TransformerCmlm, TransformerCmlm.hparams_class(hidden_size=8, num_heads=2)), n_best=1
    ),
    "classes": lambda: translated(translator_of(moods(), TransformerEncoder), n_best=3),
    "trees": parsed,
    "texts alone": lambda: translated(translator_of(letters_alone()), ["a b", "", "c"], n_best=2),
    "steps": traced,
    "scores": lambda: scored(tiny()),
    "figures": lambda: evaluated(tiny(), [batch(n, (5,) * n, (6,) * n) for n in (1, 3, 5)]),
    "figures of classes": lambda: evaluated(
        translator_of(moods(), TransformerEncoder).model,
        [{INPUTS: inputs_of(WORDS, n), TARGETS: np.arange(n, dtype=np.int32) % 3} for n in (3, 5)],
    ),
    "figures of images": lambda: evaluated(
        small(TransformerEncoder, PICTURES),
        [{INPUTS: pictures(n), TARGETS: np.arange(n, dtype=np.int32) % 4} for n in (3, 5)],
    ),
}
"""Functions that return arrays by name, keyed by the name of the case."""
