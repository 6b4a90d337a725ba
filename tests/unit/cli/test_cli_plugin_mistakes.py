"""Mistakes of those who write plug-ins: each ends a command in one line that says what to correct, or is a warning.

A row has the command that meets the mistake, the source of the plug-in, and what the line must name.
"""

import pytest

from t2t.cli import bleu, datagen, decoder, exporter, importer, trainer, tune
from t2t.data.manifest import read_manifest
from t2t.registry import REGISTRIES
from tests.in_process import call, refuses
from tests.readme import ROOT

IMPORTS = """
import dataclasses
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from t2t import (
    EncoderDecoder, HParams, Problem, Score, SequenceModel, Text2Class, Text2Text, TextPreprocessor, param,
    register_exporter, register_feature, register_filter, register_hparams, register_importer, register_metric,
    register_modality, register_model, register_objective, register_optimizer, register_preprocessor,
    register_problem, register_ranged_hparams, register_schedule, register_search_method, register_vocabulary,
)
from t2t.features import Text, Vector
from t2t.formats.exporter import Export, needs
from t2t.formats.importer import ForeignRun, reads
from t2t.formats.parity import Parity
from t2t.hparams.field import UsedWhen
from t2t.hparams.transformer import TransformerHParams, transformer_tiny
from t2t.layers.attention import MultiHeadAttention
from t2t.layers.masks import CAUSAL
from t2t.layers.modalities.base import TokenSoftmax
from t2t.layers.positions import SinusoidalPositions
from t2t.problems.options import ProblemOptions
from t2t.problems.preprocessors import RandomCrop
from t2t.problems.text_problems import TextOptions
from t2t.search.methods import Sample
from t2t.specs.features import FeatureKind
from t2t.text.byte import ByteEncoder
from t2t.text.encoder import TextEncoder
from t2t.training.objectives import BatchLoss, TrainingObjective
"""

SAMPLES = """
    def generate_samples(self, split, source):
        for n in range(20):
            yield {"inputs": "a b", "targets": "b a"}
"""
"""Lines 3 and 4 of a method are what rows replace."""


def problem(attributes="", *, samples=SAMPLES, base="Text2Text", before=""):
    """Returns a plug-in with one problem, `mine`."""
    lines = "".join(f"    {line}\n" for line in attributes.splitlines())
    return f'{IMPORTS}{before}\n\n@register_problem\nclass Mine({base}):\n    vocab_kind = "byte"\n{lines}{samples}'


def sampling(old, new):
    """Returns a plug-in whose `generate_samples` is changed."""
    assert old in SAMPLES
    return problem(samples=SAMPLES.replace(old, new))


def options(lines, base="TextOptions", decorator="@dataclass(frozen=True, kw_only=True)"):
    """Returns a plug-in with a problem of these options."""
    return problem("options_class = Own", before=f"\n{decorator}\nclass Own({base}):\n    {lines}\n")


def hparams(body, before="", parameters=""):
    """Returns a plug-in with one hparams set, `mine`."""
    return f"{IMPORTS}{before}\n\n@register_hparams\ndef mine({parameters}):\n    {body}\n"


def family(field, made="Own()", decorator="@dataclass(kw_only=True)"):
    """Returns a plug-in with an hparams set of a family that adds a field."""
    return hparams(f"return {made}", f"\n{decorator}\nclass Own(TransformerHParams):\n    {field}\n")


def ranges(body, parameters="rhp"):
    """Returns a plug-in with one range, `mine`."""
    return f"{IMPORTS}\n\n@register_ranged_hparams\ndef mine({parameters}):\n    {body}\n"


def metric(result, parameters="hypotheses, references"):
    """Returns a plug-in with one metric, `mine`."""
    return f"{IMPORTS}\n\n@register_metric\ndef mine({parameters}):\n    return {result}\n"


MODEL = f"""{IMPORTS}
@dataclass(kw_only=True)
class OwnHParams(HParams):
    pass


@register_hparams
def mine_tiny():
    return OwnHParams(hidden_size=8, batch_size=64, train_steps=1)


class Hidden:
    pass


@register_model
class Mine(EncoderDecoder):
    hparams_class = OwnHParams
    accepts_inputs = (FeatureKind.TOKENS,)

    def __init__(self, hparams, spec, dtype="float32", **kwargs):
        super().__init__(hparams, spec, dtype, **kwargs)
        width, policy = hparams.hidden_size, self.dtype_policy
        self.positions = SinusoidalPositions(width, dtype=policy, name="positions")
        self.mix = keras.layers.Dense(width, dtype=policy, name="mix")
        channels = (width, 2, width, width, 0.0, False)
        self.attention = MultiHeadAttention(*channels, span=CAUSAL, dtype=policy, name="attention")
        self.build()

    def build(self, input_shape=None):
        self.build_modality_weights()
        shape = (None, None, self.hparams.hidden_size)
        self.mix.build(shape)
        self.attention.build(shape)

    def encode(self, features, seed=None):
        return ops.mean(self.source_embedding(features["inputs"]), axis=1)

    def decode(self, ids, encoded, keep_BT=None, cache=None, seed=None):
        x = self.attention(self.positions(self.target_embedding.before(ids), cache=cache), cache=cache)
        x_BTD = x if cache is None else cache.by_sentence(x, ops.shape(encoded)[0])
        return ops.reshape(self.mix(x_BTD + encoded[:, None]), ops.shape(x))
"""


def changed(source, *changes):
    """Returns a text in which texts are replaced: old, new, old, new, ..."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def model(*changes):
    """Returns a plug-in with a model, `mine`, in which texts are replaced."""
    return changed(MODEL, *changes)


def more(method):
    """Returns the same with one more method."""
    return MODEL + "\n" + "".join(f"    {line}\n" for line in method.splitlines())


def function(kind, parameters, body):
    """Returns a plug-in that registers a function, `mine`."""
    return f"{IMPORTS}\n@register_{kind}\ndef mine({parameters}):\n    {body}\n"


def derived(kind, base, body, before=""):
    """Returns a plug-in that registers a class, `mine`."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{IMPORTS}\n@register_{kind}\n{before}class Mine({base}):\n{lines}"


def optimizer(body):
    return function("optimizer", "hparams, **common", body)


def rule(build="super().build(variables)", step="self.assign_sub(variable, learning_rate * gradient)"):
    """Returns a plug-in with an optimizer."""
    return derived(
        "optimizer",
        "keras.optimizers.Optimizer",
        f"""def __init__(self, hparams, **common):
    super().__init__(**common)
def build(self, variables):
    {build}
def update_step(self, gradient, variable, learning_rate):
    {step}""",
    )


def loss(*returned):
    """Returns a plug-in with an objective that returns something else than a loss."""
    return derived(
        "objective",
        "TrainingObjective",
        f"""def loss(self, model, features, seed):
    total, tokens = model.loss_sum(model.body(features, seed=seed), features["targets"])
    {returned[0]}""",
    )


VOCABULARY = f"""{IMPORTS}
@register_vocabulary
class Mine(TextEncoder):
    kind, file_suffix = "mine", ".mine"

    def __init__(self, words):
        self.words = list(words)

    @property
    def vocab_size(self):
        return len(self.words)

    def encode(self, text):
        return [self.words.index(word) for word in text.split()]

    def decode_ids(self, ids):
        return " ".join(self.words[one] for one in ids)

    def piece(self, token_id):
        return self.words[token_id]

    def to_bytes(self):
        return ",".join(self.words).encode()

    @classmethod
    def from_bytes(cls, content):
        return cls(content.decode().split(","))

    @classmethod
    def build(cls, lines, size):
        return cls(["<pad>", "</s>", *sorted({{word for line in lines for word in line.split()}})])
"""
FEATURE = f"""{IMPORTS}
@register_feature
@dataclass(frozen=True)
class Own(Vector):
    channels: int = 3

    def fault(self, value, name, encoder=None):
        return ""

    def encode(self, values, encoder=None):
        return [np.ones((1, 3), np.float32) for value in values]


@register_problem
class Mine(Problem):
    features = {{"inputs": "own", "targets": Text(words=("b", "a"))}}
{SAMPLES}"""
EXPORTER = f"""{IMPORTS}
@register_exporter("mine")
class Mine(Export):
    def write(self, folder):
        (folder / "file").write_text("a")

    def verify(self, folder, trial):
        return {{"weights": Parity(1, 1, 0.0)}}

    def usage(self):
        return "Read it."
"""
IMPORTER = f"""{IMPORTS}
@register_importer("mine")
@reads("a folder")
def mine(request):
    problem = request.problem.with_encoders({{"inputs": ByteEncoder(), "targets": ByteEncoder()}})
    hparams = transformer_tiny().replace(hidden_size=8, num_heads=2, num_hidden_layers=1, filter_size=8)
    return ForeignRun(problem=problem, hparams=hparams, weights={{}}, tensors=0, origin="theirs", settings="its own")
"""
COLOURS = "[np.ones((1, 3), np.float32) for value in values]"
TEXTS = "def change(self, text, rng):\n    "
RETURNED = "return ops.reshape(self.mix(x_BTD + encoded[:, None]), ops.shape(x))"
SUPER = "        super().__init__(hparams, spec, dtype, **kwargs)\n"
MISTAKES = {
    # Problems
    "a method misspelt": (
        "data", sampling("generate_samples", "generate_sample"), "Mine __init__.py:35) generate_samples;",
    ),
    "a method without a parameter": ("data", sampling("split, source", "split"), "Mine generate_samples(split,"),
    "a method of Tensor2Tensor": ("data", sampling("split, source", "data_dir, tmp_dir, split"), "Mine context)"),
    "no yield": ("data", sampling("yield {", "x = {"), "mine: generate_samples yield"),
    "tuples": ("data", sampling('{"inputs": "a b", "targets": "b a"}', '"a", "b"'), "mine: 1 'dev' tuple;"),
    "a feature misspelt": ("data", sampling('"targets"', '"target"'), "mine: 1 'targets';"),
    "bytes": ("data", sampling('"a b"', 'b"a b"'), "mine: 'inputs' bytes"),
    "an exception": ("data", sampling("range(20)", "range(1 / 0)"), "__init__.py:40, generate_samples: division"),
    "a file that is not there": ("data", sampling("range(20)", "open('/gone/x')"), "FileNotFoundError: '/gone/x'"),
    "an option that is not declared": ("data", sampling("20", "self.options.digits"), "'digits'"),
    "metrics in one text": ("data", problem("metrics = 'bleu'"), "Mine metrics 'bleu'; tuple"),
    "an unknown metric": ("data", problem("metrics = ('blue',)"), "Mine metrics: 'blue' bleu"),
    "metrics that are functions": ("data", problem("metrics = (len,)"), "Mine metrics tuple str"),
    "splits in one text": ("data", problem("splits = 'train'"), "Mine splits 'train';"),
    "an unknown vocabulary kind": ("data", problem("vocab_kind = 'bpe'"), "'bpe' subword"),
    "words in one text": ("data", problem("vocabulary = 'a b'\nvocab_kind = 'token'"), "' '"),
    "a size that is a text": ("data", problem("vocab_size = '300'"), "Mine vocab_size '300'; int"),
    "a size that is a float": ("data", problem("vocab_size = 3e2"), "Mine vocab_size 300.0; int"),
    "an unknown class": ("data", problem("class_labels = ('x', 'y')", base="Text2Class"), "mine: 1 'b (x,"),
    "options without @dataclass": (
        "data", options("digits: int = 2", decorator=""), "Own digits @dataclasses.dataclass",
    ),
    "options without a default": ("data", options("digits: int"), "Own digits int"),
    "options of another base": ("data", options("digits: int = 2", base="ProblemOptions"), "options_class TextOptions"),
    "an object for options": ("data", problem("options_class = TextOptions()"), "Mine options_class TextOptions"),
    "no base": ("data", problem(base="object"), "'mine' t2t.problems.base.Problem"),
    "too high a base": ("data", problem(base="Problem"), "Mine features Text2Text"),
    "an object registered": ("data", f"{IMPORTS}\nregister_problem('mine')(3)\n", "'mine' int;"),
    "a function of no problem": ("data", f"{IMPORTS}\n@register_problem\ndef mine():\n    return 3\n", "mine int;"),
    "the wrong decorator": ("data", problem().replace("@register_problem", "@register_model"), "'mine' SequenceModel"),
    "no decorator": ("data", problem().replace("@register_problem", ""), "'mine' --t2t_usr_dir nothing;"),
    "a module that is not imported": ("data", {"__init__": "", "words": problem()}, "'mine' words.py:"),
    "no super().__init__": ("data", problem("def __init__(self, **options):\n    pass"), "Mine __init__"),
    "no **options": (
        "data --vocab_size=300", problem("def __init__(self):\n    super().__init__()"), "Mine 'vocab_size';",
    ),
    "no shard": ("data", problem("def shards(self, split, source):\n    return 0"), "mine: shards 0"),
    "functions as filters": (
        "data", problem("def sample_filters(self):\n    return (len,)"), "sample_filters SampleFilter",
    ),
    "no filters": ("data", problem("def sample_filters(self):\n    pass"), "sample_filters None; SampleFilter"),
    "a list of raw files": (
        "data", problem("def raw_files(self, tmp_dir):\n    return ['x']"), "raw_files ['x']; dict",
    ),
    "one encoder": (
        "data", problem("def build_encoders(self, source):\n    return ByteEncoder()"), "build_encoders dict",
    ),
    "an encoder missing": (
        "data", problem("def build_encoders(self, source):\n    return {'inputs': ByteEncoder()}"), "mine: targets,",
    ),
    "no arrays": ("data", problem("def encode_samples(self, samples):\n    pass"), "encode_samples None;"),
    "a value for a method": ("data", problem("preprocessors = ()"), "Mine preprocessors def"),
    "no spec": ("data", problem("def spec(self):\n    pass"), "Mine.spec None; ProblemSpec"),
    "one preprocessor": (
        "train", problem("def preprocessors(self):\n    return RandomCrop(padding=1)"),
        "preprocessors RandomCrop; Sequence",
    ),
    # Hparams
    "no return": ("set", hparams("transformer_tiny()"), "'mine' NoneType;"),
    "a set with a parameter": ("set", hparams("return transformer_tiny()", parameters="x"), "mine() 'x';"),
    "a field misspelt": (
        "set", hparams("return transformer_tiny().replace(hiden_size=8)"), "'hiden_size' hidden_size,",
    ),
    "a value of another type": (
        "set", hparams("return transformer_tiny().replace(hidden_size='8')"), "hidden_size='8':",
    ),
    "an object for a set": ("set", f"{IMPORTS}\nregister_hparams('mine')(transformer_tiny())\n", "'mine' function"),
    "a set that fails": ("set", hparams("return transformer_tiny().x.y"), "mine __init__.py:37, 'x';"),
    "a family without @dataclass": (
        "set", family("rate: float = param(0.5, 'r.')", decorator=""), "Own rate @dataclasses",
    ),
    "no param": ("set", family("rate: float = 0.5"), "Own rate param"),
    "no annotation": ("set", family("hidden_size = 8"), "Own hidden_size int"),
    "no default": ("set", family("rate: float"), "Own 'rate';"),
    "a default that is None": ("set", family("rate: int = param(None, 'r.')"), "Own rate NoneType;"),
    "an int for a float": ("set", family("rate: float = param(1, 'r.')"), "Own rate 1.0"),
    "choices in one text": ("set", family("rate: str = param('a', 'r.', choices='ab')"), "Own rate 'ab',"),
    "a condition that is a text": (
        "set", family("rate: float = param(0.5, 'r.', used_when='x=1')", "Own(rate=0.1)"), "Own rate UsedWhen",
    ),
    "complaints in one text": (
        "set", family("def complaints(self):\n        return 'bad'"), "complaints 'bad'; list[str]",
    ),
    # Ranges
    "a range without a parameter": ("range", ranges("pass", parameters=""), "mine(rhp)"),
    "a range of an unknown hparam": ("range", ranges("rhp.set_float('learning_rat', 0.1, 1.0)"), "'learning_rat' rate"),
    "an unknown method of ranges": (
        "range", ranges("rhp.set_double('learning_rate', 0.1, 1.0)"), "mine __init__.py:37, 'set_double';",
    ),
    "categories in one text": ("range", ranges("rhp.set_categorical('optimizer', 'adam')"), "optimizer: 'adam'"),
    # Metrics
    "a float": ("metric", metric("0.5"), "mine float; t2t.Score:"),
    "a score of a text": ("metric", metric("Score('mine', 'good')"), "mine str; t2t.Score:"),
    "one parameter": ("metric", metric("Score('mine', 0.5)", "hypotheses"), "mine(hypotheses, references)"),
    "a metric that fails": ("metric", metric("Score('mine', 1 / 0)"), "mine __init__.py:37, ZeroDivisionError:"),
    "a name with a space": ("metric", metric("0").replace("metric\ndef", "metric('My metric')\ndef"), "'My metric'"),
    # Modalities
    "a function for a modality": ("modality", f"{IMPORTS}\n@register_modality\ndef mine():\n    pass\n", "'mine' Top"),
    "a layer for a modality": (
        "modality", f"{IMPORTS}\n@register_modality\nclass Mine(keras.layers.Layer):\n    pass\n", "'mine' Top",
    ),
    "a modality without parameters": (
        "modality",
        f"{IMPORTS}\n@register_modality\nclass Mine(TokenSoftmax):\n    def __init__(self):\n        pass\n",
        "Mine 'label_smoothing';",
    ),
    # Models
    "no self.build": ("model", model("        self.build()\n", ""), "Mine self.build()"),
    "no build_modality_weights": (
        "model", model("        self.build_modality_weights()\n", ""), "self.build_modality_weights()",
    ),
    "a layer that is not built": ("model", model("        self.mix.build(shape)\n", ""), "Mine: mix/kernel,"),
    "no span=CAUSAL": ("model", model("span=CAUSAL, ", "is_cached=True, "), "Mine span=CAUSAL"),
    "no super().__init__ of a model": ("model", model(SUPER, ""), "Mine __init__.py:54, __init__:"),
    "a constructor without dtype": (
        "model", model('hparams, spec, dtype="float32", **kwargs)', "hparams, spec)"), "'dtype';",
    ),
    "no encode": ("model", model("def encode(", "def encoded("), "Mine encode;"),
    "no decode": ("model", model("def decode(", "def decoded("), "Mine decode;"),
    "encode without seed": (
        "model", model("encode(self, features, seed=None)", "encode(self, features)"), "Mine encode 'seed';",
    ),
    "decode without cache": ("model", model(", cache=None, seed=None)", ", seed=None)"), "Mine decode 'cache';"),
    "another width": ("model", model(RETURNED, "return ops.tile(self.mix(x_BTD), (1, 1, 2))"), "Mine 16); D=8"),
    "no positions": ("model", model(RETURNED, "return ops.mean(x, axis=1)"), "Mine 8); (B, D)"),
    "a model without return": ("model", model(RETURNED, "x + 1"), "Mine None; Tensor"),
    "a model that fails": ("model", model("self.mix(x_BTD", "self.mixed(x_BTD"), "Mine decode: 'mixed';"),
    "shapes that do not fit": ("model", model("encoded[:, None]", "encoded[:, :3]"), "Mine decode:"),
    "a layer that Keras does not find": (
        "model", model("        self.build()", "        self.own = Hidden()\n"
                       "        self.own.layer = keras.layers.Dense(8, name='lost')\n"
                       "        self.own.layer.build((1, 8))\n        self.build()"), "Mine lost/kernel,",
    ),
    "randomness without a seed": (
        "model", model("return ops.mean(", "return keras.random.normal((8,)) + ops.mean("), "Mine seed,",
    ),
    "a function for hparams_class": (
        "model", model("hparams_class = OwnHParams", "hparams_class = mine_tiny"), "hparams_class",
    ),
    "kinds that are no tuple": ("model", model("(FeatureKind.TOKENS,)", "FeatureKind.TOKENS"), "accepts_inputs tuple"),
    "an unknown hparam in a model": (
        "model", model("hparams.hidden_size, self", "hparams.hiden_size, self"), "'hiden_size';",
    ),
    "a function for a model": ("model", MODEL + "\n@register_model\ndef yours():\n    pass\n", "'yours' SequenceModel"),
    "a model of Keras": (
        "model", model("class Mine(EncoderDecoder)", "class Mine(keras.Model)"), "'mine' SequenceModel",
    ),
    "a mean as loss": (
        "model", more("def loss_sum(self, hidden, targets):\n    return ops.mean(hidden)"), "Mine loss_sum",
    ),
    "logits of another size": ("model", more("def logits(self, hidden):\n    return hidden"), "Mine 8); 5"),
    "logits that are nan": ("model", model("return ops.mean(", "return ops.log(-1.0) + ops.mean("), "Mine nan"),
    "no body": ("model", model("class Mine(EncoderDecoder)", "class Mine(SequenceModel)"), "Mine body;"),
    "a list of unread hparams": (
        "model", more("@classmethod\ndef unread_hparams(cls, spec):\n    return ['batch_size']"),
        "unread_hparams dict[str,",
    ),
    # Optimizers, schedules, objectives
    "no optimizer": ("optimizer", optimizer("keras.optimizers.SGD(**common)"), "mine NoneType;"),
    "an optimizer without its name": ("optimizer", optimizer("return keras.optimizers.SGD()"), "mine sgd 'mine':"),
    "an optimizer without hparams": (
        "optimizer", derived("optimizer", "keras.optimizers.SGD", "pass"), "Mine(hparams, learning_rate=, __init__",
    ),
    "an optimizer that decays": (
        "optimizer", optimizer("return keras.optimizers.SGD(weight_decay=0.1, **common)"), "weight_decay,",
    ),
    "no rule": ("optimizer", rule().replace("update_step", "update"), "Mine update_step(self,"),
    "a rule that returns": ("optimizer", rule(step="return variable"), "Mine update_step self.assign_sub"),
    "a rule that fails": ("optimizer", rule(step="self.momentum"), "update_step: 'momentum';"),
    "no super().build": ("optimizer", rule("pass"), "Mine super().build"),
    "an object for a schedule": (
        "schedule", f"{IMPORTS}\nregister_schedule('mine')(keras.optimizers.schedules.CosineDecay(1.0, 9))\n",
        "CosineDecay(hparams, update)",
    ),
    "no rate": ("schedule", function("schedule", "hparams, update", "hparams.learning_rate"), "mine None 1;"),
    "a rate that is a text": ("schedule", function("schedule", "hparams, update", "return '1'"), "mine '1' 1;"),
    "a rate below 0": ("schedule", function("schedule", "hparams, update", "return -0.1"), "mine -0.1 1;"),
    "a schedule of the update": ("schedule", function("schedule", "update", "return 0.1"), "mine(hparams, update)"),
    "a function for an objective": ("objective", function("objective", "model", "pass"), "'mine' TrainingObjective"),
    "a tensor for a loss": ("objective", loss("return total"), "loss BatchLoss"),
    "a loss of each token": (
        "objective", loss("return BatchLoss(ops.ones((2, 3)), total, tokens)"), "loss BatchLoss (2,",
    ),
    "a loss without seed": (
        "objective", derived("objective", "TrainingObjective", "def loss(self, model, features):\n    pass"), "seed)",
    ),
    "an objective without hparams": (
        "objective", derived("objective", "TrainingObjective", "def __init__(self):\n    pass"), "Mine(hparams)",
    ),
    "one batch for all": (
        "objective", derived("objective", "TrainingObjective", "def prepare(self, batches, update, problem):\n"
                             "    return batches[:0]"), "Mine prepare 0 1;",
    ),
    "no batches": (
        "objective", derived("objective", "TrainingObjective", "def prepare(self, batches, update, problem):\n"
                             "    pass"), "prepare None; list",
    ),
    # Search methods
    "a search that is not written": (
        "search", derived("search_method", "SearchMethod", "pass").replace("import Sample", "import SearchMethod"),
        "Mine rows search; search(self, task)",
    ),
    "no search": ("search", derived("search_method", "Sample", "def search(self, task):\n    pass"), "Mine NoneType,"),
    "no rows": ("search", derived("search_method", "Sample", "def rows(self, settings):\n    pass"), "rows None; int"),
    "samples without hparams": (
        "search", derived("search_method", "Sample", "def samples(self, n_best):\n    return 1"), "samples(self,",
    ),
    "a list of compiled settings": (
        "search", derived("search_method", "Sample", "def compiled(self, settings):\n    return ['top_k']"),
        "compiled ['top_k']; Mapping",
    ),
    "a search with arguments": (
        "search", derived("search_method", "Sample", "def __init__(self, width):\n    pass"), "Mine() 'width';",
    ),
    # Filters and preprocessors
    "a filter without return": ("filter", function("filter", "texts, most", "len(texts) < most"), "mine None; True"),
    "a filter that returns a number": ("filter", function("filter", "texts, most", "return 0.5"), "mine 0.5; True"),
    "a filter without its number": ("filter", function("filter", "texts", "return True"), "mine(texts, number)"),
    "a change without rng": (
        "change", derived("preprocessor", "TextPreprocessor", "def change(self, text):\n    return text"), "text, rng)",
    ),
    "a field without @dataclass": (
        "change", derived("preprocessor", "TextPreprocessor", f"most: int = 3\n{TEXTS}return text"),
        "Mine most @dataclasses.dataclass",
    ),
    # Vocabularies and features
    "a vocabulary without a kind": (
        "words", changed(VOCABULARY, 'kind, file_suffix = "mine", ".mine"', 'file_suffix = ".mine"'), "Mine kind ...",
    ),
    "a kind of another name": (
        "words", changed(VOCABULARY, "@register_vocabulary", '@register_vocabulary("other")'), "'other' 'mine';",
    ),
    "no piece": ("words", changed(VOCABULARY, "def piece(", "def pieces("), "Mine piece; token_id)"),
    "no @property": ("words", changed(VOCABULARY, "    @property\n", ""), "vocab_size @property"),
    "no @classmethod": (
        "words", changed(VOCABULARY, "    @classmethod\n    def build", "    def build"), "build @classmethod",
    ),
    "ids that are not returned": ("words", changed(VOCABULARY, "return [self", "[self"), "encode None; list[int]"),
    "a vocabulary that is not returned": ("words", changed(VOCABULARY, "return cls([", "cls(["), "build NoneType;"),
    "a file that is a text": (
        "words", changed(VOCABULARY, '",".join(self.words).encode()', '",".join(self.words)'), "to_bytes bytes",
    ),
    "a file that is read otherwise": (
        "words", changed(VOCABULARY, 'split(",")', 'split(",")[:-1]'), "3 4, from_bytes to_bytes",
    ),
    "a feature without @dataclass": (
        "data", changed(FEATURE, "@dataclass(frozen=True)\n", ""), "Own channels @dataclasses.dataclass",
    ),
    "no encoded values": ("data", changed(FEATURE, f"return {COLOURS}", COLOURS), "encode None; list[ndarray]"),
    "one value too few": ("data", changed(FEATURE, COLOURS, f"{COLOURS}[1:]"), "Own encode 19 20"),
    "a class for a feature": ("data", changed(FEATURE, '"own"', "Own"), "Mine 'inputs' Own; features"),
    "no targets": ("data", changed(FEATURE, ', "targets": Text(words=("b", "a"))', ""), "Mine targets; features"),
    # Exporters and importers
    "an exporter of no base": ("export", changed(EXPORTER, "Mine(Export)", "Mine"), "Mine(translator, job)"),
    "a function that exports": ("export", function("exporter", "translator, job", "pass"), "mine None; Export,"),
    "no comparison": ("export", changed(EXPORTER, "def verify(", "def verified("), "Mine verify; trial)"),
    "a comparison that is a bool": (
        "export", changed(EXPORTER, 'return {"weights": Parity(1, 1, 0.0)}', "return True"), "True; dict[str, Parity]",
    ),
    "packages in one text": (
        "export", changed(EXPORTER, "class Mine", '@needs(packages="numpy")\nclass Mine'), "packages 'numpy';",
    ),
    "no super().__init__ of an export": (
        "export", EXPORTER + "\n    def __init__(self, translator, job):\n        pass\n", "super().__init__",
    ),
    "an importer without return": ("import", changed(IMPORTER, "return Foreign", "Foreign"), "mine None; ForeignRun"),
    "@reads without a folder": ("import", changed(IMPORTER, '@reads("a folder")', "@reads"), '@reads("the'),
    "an importer of two": ("import", changed(IMPORTER, "(request)", "(request, more)"), "mine(request) 'more';"),
    "a function for hparams": (
        "import", changed(IMPORTER, "hparams=hparams,", "hparams=transformer_tiny,"), "hparams transformer_tiny;",
    ),
    "a file that is not in the folder": (
        "import",
        changed(IMPORTER, "return Foreign", "open(request.model_dir / 'gone')\n    return Foreign"),
        "mine FileNotFoundError: gone code,",
    ),
    "moments of some weights": (
        "import",
        changed(IMPORTER, "weights={}", "weights=weights, moments={'momentum': {}}", "    return Foreign", """
    from t2t.registry import MODELS
    variables = MODELS.get("transformer")(hparams, problem.spec()).variables
    weights = {one.path.partition("/")[2]: one.numpy().tolist() for one in variables}
    return Foreign"""),
        "moments=momentum decoder/layer_0/",
    ),
    # Modules
    "a syntax error": ("data", "def f(:\n", "__init__.py:1: SyntaxError:"),
    "a library that is not installed": ("data", "import no_such_library\n", "__init__.py:1: 'no_such_library';"),
}  # fmt: skip

WARNED = {
    "an attribute misspelt": ("data", problem("vocab_sizes = 300"), "Mine vocab_sizes; vocab_size?"),
    "an attribute of Tensor2Tensor": ("data", problem("approx_vocab_size = 300"), "approx_vocab_size, vocab_size"),
    "no dev split": ("data", problem("splits = ('train', 'valid')"), "Mine dev,"),
    "a score that is nan": ("metric", metric("Score('mine', float('nan'))"), "mine nan,"),
    "dropout of Keras": (
        "dry", model("        self.build()", "        self.drop = keras.layers.Dropout(0.5)\n        self.build()"),
        "Mine dropout t2t.layers.dropout.Dropout",
    ),
    "layers without names": (
        "dry", model(', name="mix"', "", "        self.build()",
                     "        self.also = keras.layers.Dense(8)\n        self.build()",
                     "        self.mix.build(shape)", "        self.mix.build(shape)\n        self.also.build(shape)"),
        "Mine dense",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mistakes")
    call(datagen, problem="tiny_algo", data_dir=folder)
    return folder


@pytest.fixture
def command_of(tmp_path, data_dir):
    """Returns a function that writes a plug-in, and returns the command that meets its mistake and its arguments."""

    def make(how, source):
        for name, text in (source if isinstance(source, dict) else {"__init__": source}).items():
            (tmp_path / "plug").mkdir(exist_ok=True)
            (tmp_path / "plug" / f"{name}.py").write_text(text)
        (tmp_path / "lines").write_text("a\nb\n")
        own = [f"--t2t_usr_dir={tmp_path}/plug"]
        run = [*own, f"--output_dir={tmp_path}/run", "--train_steps=1"]
        known = [*run, "--problem=tiny_algo", f"--data_dir={data_dir}"]
        texts = [f"--{split}_{side}={tmp_path}/lines" for split in ("train", "dev") for side in ("source", "target")]
        texts += ["--problem=text2text_files", f"--data_dir={tmp_path}/data"]
        trained = [*own, f"--output_dir={ROOT}/tests/golden/runs/0.1.0/run"]
        small = "--hparams=hidden_size=8,num_heads=2,batch_size=64"
        transformer = ["--model=transformer", "--hparams_set=transformer_tiny", small]
        how, *flags = how.split()
        return {
            "data": (datagen, [*own, "--problem=mine", f"--data_dir={tmp_path}/data"]),
            "train": (trainer, [*run, "--problem=mine", "--generate_data", *transformer,
                                f"--data_dir={tmp_path}/data"]),
            "set": (trainer, [*known, "--model=transformer", "--hparams_set=mine"]),
            "range": (tune, [*known, *transformer, "--hparams_range=mine", "--autotune_max_trials=1",
                             "--autotune_objective=loss"]),
            "metric": (bleu, [*own, *(f"--{side}={tmp_path}/lines" for side in ("translation", "reference")),
                              "--metrics=mine"]),
            "modality": (trainer, [*known, *transformer[:2], f"{small},target_modality=mine"]),
            **{name: (trainer, [*known, *transformer[:2], f"{small},{hparam}=mine"]) for name, hparam in
               (("optimizer", "optimizer"), ("schedule", "learning_rate_schedule"), ("objective", "objective"))},
            "search": (decoder, [*trained, "--decode_method=mine", f"--decode_from_file={tmp_path}/lines",
                                 f"--decode_to_file={tmp_path}/out"]),
            "filter": (datagen, [*own, *texts, "--vocab_kind=byte", "--filters=mine=1"]),
            "change": (trainer, [*run, *texts, "--generate_data", *transformer, "--vocab_kind=byte",
                                 "--preprocessors=mine=1"]),
            "words": (datagen, [*own, *texts, "--vocab_kind=mine"]),
            "export": (exporter, [*trained, "--format=mine", f"--export_dir={tmp_path}/export", "--parity_lines=2"]),
            "import": (importer, [*own, "--from=mine", f"--model_dir={tmp_path}", f"--output_dir={tmp_path}/run"]),
            "model": (trainer, [*known, "--model=mine", "--hparams_set=mine_tiny"]),
            "dry": (trainer, [*known, "--model=mine", "--hparams_set=mine_tiny", "--dry_run"]),
        }[how], flags  # fmt: skip

    yield make
    for registry in REGISTRIES:
        registry.thaw()


@pytest.mark.parametrize(("how", "source", "about"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_of_a_plug_in_ends_in_one_line(command_of, how, source, about):
    (command, arguments), flags = command_of(how, source)
    refuses(command, about, *arguments, *flags)


@pytest.mark.parametrize(("how", "source", "about"), WARNED.values(), ids=WARNED)
def test_what_may_be_a_mistake_is_a_warning(command_of, how, source, about):
    (command, arguments), flags = command_of(how, source)
    warned = [line for line in call(command, *arguments, *flags).err.splitlines() if line.startswith("warning: ")]
    assert any(all(word in line for word in about.split()) for line in warned), warned


def test_the_traceback_of_an_exception_is_printed_above_the_line(command_of):
    (command, arguments), _ = command_of("data", sampling("range(20)", "range(1 / 0)"))
    printed = refuses(command, "division", *arguments)
    assert "Traceback (most recent call last):" in printed.err
    assert "1 / 0" in printed.err
    (command, arguments), _ = command_of("data", problem("metrics = 'bleu'"))
    assert "Traceback" not in refuses(command, "metrics", *arguments).err


def test_an_exception_in_another_process_is_found_in_its_text(command_of):
    """Processes that share the work pass on exceptions without their tracebacks."""
    sharded = problem("def shards(self, split, source):\n    return 4", samples=SAMPLES.replace("20", "1 / 0"))
    (command, arguments), _ = command_of("data", sharded)
    refuses(command, "__init__.py:42, generate_samples: ZeroDivisionError:", *arguments)


# === What plug-ins may do ===
SUMS = problem(
    "options_class = Own\nsplits = ('train', 'dev')",
    samples=SAMPLES.replace("20", "self.options.digits"),
    before="\n@dataclass(frozen=True, kw_only=True)\nclass Own(TextOptions):\n    digits: int = 20\n",
)


def test_options_of_a_plug_in_are_flags_and_keys_of_a_configuration(command_of, tmp_path):
    (command, arguments), _ = command_of("data", SUMS)
    call(command, *arguments, "--digits=3")
    assert read_manifest(tmp_path / "data/mine").options == {"digits": 3}
    (tmp_path / "run.toml").write_text(
        f'problem = "mine"\nt2t_usr_dir = "{tmp_path}/plug"\ndata_dir = "{tmp_path}/more"\ndigits = 4\n'
    )
    call(command, config=tmp_path / "run.toml")
    assert read_manifest(tmp_path / "more/mine").splits["train"].examples == 4
    refuses(command, "--digits 3 4", *arguments, "--digits=4", "--digits=3")
    refuses(command, "--digit does", *arguments, "--digit=3")
    refuses(command, "'digits': TinyAlgo", arguments[0], arguments[2], "--problem=tiny_algo", "--digits=3")


def test_commands_in_messages_name_the_folder_of_the_plug_in(command_of, tmp_path):
    (_, (usr_dir, *_)), _ = command_of("data", SUMS)
    named = f"t2t-datagen --t2t_usr_dir={tmp_path}/plug --problem=mine"
    names = [usr_dir, "--problem=mine", "--model=transformer", "--hparams_set=transformer_tiny"]
    assert named in refuses(trainer, named, *names, f"--data_dir={tmp_path}/x", f"--output_dir={tmp_path}/run").err


def test_metrics_are_listed_with_those_of_the_plug_in(command_of):
    (_, (usr_dir, *_)), _ = command_of("metric", metric("0.5"))
    lines = call(datagen, usr_dir, "--registry_help").out.splitlines()
    listed = [line.split()[0] for line in lines[lines.index("Metrics:") + 1 :][: lines.index("Problems:")] if line]
    assert {"bleu", "chrf", "mine"} <= set(listed)
