"""M2M-100, NLLB, mBART and mBART-50 in plain numpy, float64, with transformers' names, and folders of such models.

The network is Marian's reference with pre-norms, and with the positions and embedding norms of the papers' code (Liu et
al. 2020, Fan et al. 2021). The tokenizer follows the documentation of transformers for ids and the tokens around texts,
so that it shares no code with the library.

Legend: S source length, T target length, D width, V vocabulary.
"""

import io
import json

import numpy as np
import sentencepiece
from safetensors.numpy import save_file

from tests.reference import marian
from tests.reference.transformer import split_sinusoid

CORPUS = [*marian.CORPUS["source"][:4], *marian.CORPUS["target"][:4]]
KINDS = ("m2m", "nllb", "mbart", "mbart50")
LANGUAGES = {
    "m2m": ["af", "de", "en"],
    "nllb": ["ace_Arab", "deu_Latn", "eng_Latn"],
    "mbart": ["de_DE", "en_XX", "ro_RO"],
    "mbart50": ["de_DE", "en_XX", "ro_RO"],
}
_CLASSES = {"m2m": "M2M100Tokenizer", "nllb": "NllbTokenizer", "mbart": "MBartTokenizer", "mbart50": "MBart50Tokenizer"}
SPARE_ROWS = 3
MISSING_PIECE = "\u2581zebra"


def english(kind):
    return LANGUAGES[kind][2 if kind in ("m2m", "nllb") else 1]


def german(kind):
    return LANGUAGES[kind][1 if kind in ("m2m", "nllb") else 0]


def piece_of(kind, language):
    return f"__{language}__" if kind == "m2m" else language


class Tokenizer:
    """The model's own ids of texts, with language codes and end of sequence."""

    def __init__(self, kind, folder, legacy=False):
        self.kind, self.legacy = kind, legacy
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
        self.table = json.loads((folder / "vocab.json").read_text()) if kind == "m2m" else None
        pieces = len(self.table) if self.table else self.model.get_piece_size() + 1
        self.codes = {language: pieces + number for number, language in enumerate(LANGUAGES[kind])}
        self.mask = pieces + len(self.codes)
        self.vocab_size = self.mask + SPARE_ROWS

    def text(self, text):
        """Returns the ids of a text without codes and end."""
        if self.table:
            return [self.table.get(piece, 3) for piece in self.model.encode(text, out_type=str)]
        return [number + 1 if number > 2 else 3 for number in self.model.encode(text)]

    def source(self, text, language):
        """Returns the input ids of the encoder."""
        if self.kind == "mbart" or self.legacy:
            return [*self.text(text), 2, self.codes[language]]
        return [self.codes[language], *self.text(text), 2]

    def start(self, language):
        """Returns the ids with which the decoder starts."""
        return [self.codes[language]] if self.kind == "mbart" else [2, self.codes[language]]

    def target(self, text):
        """Returns the ids that the decoder should write after its start."""
        return [*self.text(text), 2]


def config(kind, vocab_size, *, width=8, inner=12, heads=2, layers=2, **others):
    """Returns the content of config.json, with small sizes."""
    is_mbart = kind in ("mbart", "mbart50")
    return {
        "model_type": "mbart" if is_mbart else "m2m_100", "vocab_size": vocab_size, "d_model": width,
        "encoder_layers": layers, "decoder_layers": layers, "encoder_ffn_dim": inner, "decoder_ffn_dim": inner,
        "encoder_attention_heads": heads, "decoder_attention_heads": heads, "max_position_embeddings": 40,
        "activation_function": "gelu" if is_mbart else "relu", "scale_embedding": True, "is_encoder_decoder": True,
        "dropout": 0.1, "attention_dropout": 0.1, "encoder_layerdrop": 0.05, "pad_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 2, "num_beams": 5,
    } | others  # fmt: skip


def random_tensors(kind, values, seed=0):
    """Returns random tensors by name."""
    shapes = {name: array.shape for name, array in marian.random_tensors(values).items()}
    width = values["d_model"]
    if kind in ("m2m", "nllb"):
        del shapes["final_logits_bias"]
    for side in ("encoder", "decoder"):
        norms = ["layer_norm"]
        if kind in ("mbart", "mbart50"):
            norms.append("layernorm_embedding")
            shapes[f"model.{side}.embed_positions.weight"] = (values["max_position_embeddings"] + 2, width)
        shapes |= {f"model.{side}.{norm}.{part}": (width,) for norm in norms for part in ("weight", "bias")}
    rng = np.random.default_rng(seed)
    return {name: rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


class Network(marian.Network):
    """The network with a model's tensors."""

    def __init__(self, kind, values, tensors):
        super().__init__(values, tensors)
        self.is_mbart = kind in ("mbart", "mbart50")

    def log_probs(self, source, read):
        """Returns log-probabilities (T, V) of the next id after each of the decoder's input ids `read`."""
        return self._after(source, read)

    def _is_pre_norm(self, side):
        return True

    def _embed(self, side, ids):
        width, numbers = self.values["d_model"], range(2, 2 + len(ids))
        x = self._table(side)[ids] * np.sqrt(width)
        if self.is_mbart:
            x = x + self.tensors[f"model.{side}.embed_positions.weight"][list(numbers)]
            return self._norm(f"model.{side}.layernorm_embedding", x)
        return x + np.array([split_sinusoid(number, width) for number in numbers])


def write_model(folder, kind, edit=None, seed=0, listed="tokens", **settings):
    """Writes a folder as save_pretrained does; returns (config, tensors, tokenizer). `edit` may change the first two.

    `listed` selects the file with the language codes: `tokens` (added_tokens_decoder), `map` (special_tokens_map.json,
    which has no ids), or tokenizer.json: `whole` (its added tokens), `table` and `entries` (two forms of vocabulary).
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*CORPUS, "zebra zebra zebra"] * 4), model_writer=content, vocab_size=60,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    (folder / "sentencepiece.bpe.model").write_bytes(content.getvalue())
    if kind == "m2m":  # in another order than the model's, and without one of its pieces
        model = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
        pieces = [model.id_to_piece(n) for n in reversed(range(3, model.get_piece_size()))]
        table = ["<s>", "<pad>", "</s>", "<unk>", *(piece for piece in pieces if piece != MISSING_PIECE)]
        (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(table)}))
    tokenizer = Tokenizer(kind, folder)
    named = {piece_of(kind, language): number for language, number in tokenizer.codes.items()}
    own = {"tokenizer_class": _CLASSES[kind], "src_lang": english(kind), "tgt_lang": None}
    if listed == "tokens":
        own["added_tokens_decoder"] = {str(number): {"content": piece} for piece, number in named.items()}
    elif listed == "whole":
        added = [{"id": number, "content": piece} for piece, number in named.items()]
        (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    elif listed == "table":
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"xx_XX": 4, **named}}}))
    elif listed == "entries":
        entries = [["xx_XX", 0.0]] * min(named.values()) + [[piece, 0.0] for piece in named]
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": entries}}))
    else:
        (folder / "special_tokens_map.json").write_text(json.dumps({"additional_special_tokens": list(named)}))
    (folder / "tokenizer_config.json").write_text(json.dumps(own))
    values = config(kind, tokenizer.vocab_size, **settings)
    if kind == "mbart" and "decoder_start_token_id" not in settings:
        values["decoder_start_token_id"] = tokenizer.codes[german(kind)]
    tensors = random_tensors(kind, values, seed)
    if edit:
        edit(values, tensors)
    (folder / "config.json").write_text(json.dumps(values))
    save_file(tensors, folder / "model.safetensors")
    return values, tensors, tokenizer
