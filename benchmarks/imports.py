"""Imports models made by other programs and compares ids, log-probabilities and outputs with theirs."""

import argparse
import dataclasses
import functools
import io
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from benchmarks.harness.environments import interpreter_of
from benchmarks.harness.flags import peers_home
from benchmarks.harness.processes import Conditions, Side, run
from benchmarks.known_answers import Row, print_table
from benchmarks.peers import ENVIRONMENTS
from t2t.formats.exporter import ExportJob, Trial
from t2t.formats.huggingface.write import HuggingFaceExport
from t2t.formats.parity import ParityError
from t2t.inference.translator import Translator
from t2t.problems.samples import Source
from t2t.runs.importing import import_run
from t2t.runs.loading import LoadedRun, load
from t2t.runs.names import get_problem, request_import

TAG = ">>deu<<"
SENTINEL = "<extra_id_3>"
SIZES = {"layers": 3, "width": 64, "head_size": 20, "ffn_dim": 128, "heads": 4, "deviation": 0.2, "seed": 1}
SEARCH = {"beam_size": 4, "extra_length": 10}
TOLERANCE = 1e-5
"""Maximum difference of log-probabilities, in nats."""
_PIECES = 300
_LANGUAGES = ("source_language", "target_language")
_SECONDS = 1800


@dataclasses.dataclass(frozen=True)
class Case:
    """A model of Hugging Face's transformers to import."""

    name: str
    module: str
    """Module of `benchmarks.peers` that makes the model and writes its outputs."""
    learn: Callable[[Path, Sequence[tuple[str, str]]], None]
    """Function that trains its tokenizer on pairs of texts and writes the files to a folder."""
    tag: str
    """Token at the start of half of the inputs, or empty."""
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Additional fields of its job."""
    languages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """`source_language` and `target_language`, for models with language codes."""


@dataclasses.dataclass(frozen=True)
class TokenCase:
    """A model of a toolkit whose input is tokens, not text."""

    name: str
    format: str
    """Value of `t2t-import --from`."""
    environment: str
    module: str
    """Module of `benchmarks.peers` that makes the model and writes its outputs."""
    options: Mapping[str, Any]
    """Additional fields of its job."""


def main(argv: list[str]) -> int:
    """Prints a table of the comparisons; returns 1 if any fails, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks imports", description=__doc__)
    parser.add_argument("--lines", type=int, default=200, help="number of inputs to encode, score and decode")
    parser.add_argument("--peers_home", type=Path, default=peers_home(), help="folder of the peers' environments")
    arguments = parser.parse_args(argv)
    rows, home = [], arguments.peers_home.expanduser().absolute()
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            rows += compare(case, Path(folder), home, arguments.lines)
    for activation in ("relu", "swish"):
        with tempfile.TemporaryDirectory() as folder:
            options = {"activation": activation, "inner": 2 * SIZES["width"]}
            rows += compare_with_marian(options, Path(folder), home, arguments.lines)
    for token_case in TOKEN_CASES:
        with tempfile.TemporaryDirectory() as folder:
            rows += compare_tokens(token_case, Path(folder), home, arguments.lines)
    print_table(rows)
    return 0 if all(row["ok"] for row in rows) else 1


def compare(case: Case, folder: Path, home: Path, lines: int) -> Iterator[Row]:
    """Yields the comparisons with a model of Hugging Face's transformers and its tokenizer."""
    (model_dir := folder / "model").mkdir()
    pairs = _pairs(case.tag, lines)
    case.learn(model_dir, [(source.removeprefix(case.tag).removesuffix("数"), target) for source, target in pairs])
    texts = dict(zip(("sources", "targets"), zip(*pairs, strict=True), strict=True))
    job = {"folder": str(model_dir), **SIZES, **SEARCH, **texts, **case.options, **case.languages}
    interpreter = interpreter_of(ENVIRONMENTS["huggingface_text"], home)
    side = Side(case.module, interpreter, f"benchmarks.peers.{case.module}")
    theirs = run(side, job, folder / "job", Conditions(threads=1, timeout=_SECONDS))
    loaded = _import(case, model_dir, folder / "run")
    rows = [] if case.languages else [_exported(loaded, folder / "export", str(interpreter), texts["sources"])]
    rows += [*compare_answers(loaded, theirs, pairs)]
    rows += [_same_weights(case, folder, model_dir, name, loaded) for name in ("zip", "stream")]
    for row in rows:
        yield {**row, "check": f"{case.name}: {row['check']}"}


def compare_with_marian(options: Mapping[str, Any], folder: Path, home: Path, lines: int) -> Iterator[Row]:
    """Yields the comparison with Marian's outputs of a model in Marian's native format."""
    (model_dir := folder / "model").mkdir()
    pairs = _pairs("", lines)
    texts = [source.removesuffix("数").strip() for source, _ in pairs]
    ids = {"eos_id": 0, "unk_id": 1, "bos_id": -1}
    (model_dir / "vocab.spm").write_bytes(_learn([*texts, *(target for _, target in pairs)], **ids))
    job = {"folder": str(model_dir), **SIZES, **SEARCH, **options, "sources": texts}
    side = Side("marian_import", interpreter_of(ENVIRONMENTS["marian"], home), "benchmarks.peers.marian_import")
    theirs = run(side, job, folder / "job", Conditions(threads=1, timeout=_SECONDS))
    import_run(request_import(format="marian", model_dir=model_dir, output_dir=folder / "run"))
    found = load(str(folder / "run")).translator().translate(texts, beam_size=1, alpha=0.0, extra_length=100)
    # Each side truncates outputs without an end at a different length.
    pairs_of = [(theirs_of.strip(), best[0].text) for theirs_of, best in zip(theirs["greedy"], found, strict=True)]
    ours = [text[: len(other)] for other, text in pairs_of]
    what = f"Marian's own, {options['activation']}: outputs of greedy search"
    yield _agreement(what, [other[: len(text)] for other, text in pairs_of], ours)


def compare_tokens(case: TokenCase, folder: Path, home: Path, lines: int) -> Iterator[Row]:
    """Yields the comparisons with a model of a toolkit whose input is tokens."""
    (model_dir := folder / "model").mkdir()
    pairs = _pairs("", lines)
    texts = dict(zip(("sources", "targets"), zip(*pairs, strict=True), strict=True))
    job = {"folder": str(model_dir), **SIZES, **SEARCH, **texts, **case.options}
    side = Side(case.module, interpreter_of(ENVIRONMENTS[case.environment], home), f"benchmarks.peers.{case.module}")
    theirs = run(side, job, folder / "job", Conditions(threads=1, timeout=_SECONDS))
    import_run(request_import(format=case.format, model_dir=model_dir, output_dir=folder / "run"))
    loaded = load(str(folder / "run"))
    encoders = [loaded.problem.encoders[name] for name in ("inputs", "targets")]
    ids = [[[*encoder.encode(text), 1] for encoder, text in zip(encoders, pair, strict=True)] for pair in pairs]
    scores = [_log_probs(loaded, source, target) for source, target in ids]
    worst = max(np.abs(np.array(a) - b).max() for a, b in zip(theirs["log_probs"], scores, strict=True))
    is_near = bool(worst < TOLERANCE)
    check, expected = f"{case.name}: difference of log-probabilities", f"< {TOLERANCE:.0e}"
    yield Row(check=check, expected=expected, found=f"{worst:.1e}", ok=is_near)
    ours = _renumbered(encoders[1].vocab_size, theirs["special"])
    wanted = [[ours[token] for token in written] for written in theirs["greedy"]]
    outputs = _outputs(loaded.translator(), texts["sources"], beam_size=1)
    found = [[token for token in written if token != 1] for written in outputs]
    inputs = [source for source, _ in ids]
    yield {**_greedy_row(loaded, inputs, wanted, found), "check": f"{case.name}: outputs of greedy search"}


def _greedy_row(
    loaded: LoadedRun, inputs: Sequence[list[int]], theirs: Sequence[list[int]], ours: Sequence[list[int]]
) -> Row:
    """Compares outputs of greedy search; at the first difference, our token must be the more probable one.

    In some toolkits a decoding step selects another token than the most probable one of their full forward pass.
    """
    differ = [i for i in range(len(inputs)) if theirs[i] != ours[i]]
    better = 0
    for i in differ:
        place = next((n for n, pair in enumerate(zip(theirs[i], ours[i], strict=False)) if pair[0] != pair[1]), None)
        if place is not None:
            first, other = (_log_probs(loaded, inputs[i], side[i][: place + 1])[place] for side in (ours, theirs))
            better += first > other
    return Row(
        check="outputs of greedy search",
        expected=f"{len(inputs)} the same, or our token more probable",
        found=f"{len(inputs) - len(differ)} the same, {better} more probable, {len(differ) - better} less",
        ok=better == len(differ),
    )


def compare_answers(loaded: LoadedRun, theirs: dict[str, Any], pairs: Sequence[tuple[str, str]]) -> Iterator[Row]:
    """Yields the comparisons of a run with the other program: ids, log-probabilities and outputs."""
    ours = _renumbered(loaded.problem.encoders["inputs"].vocab_size, theirs["special"])
    sources, targets = zip(*pairs, strict=True)
    translator = loaded.translator()
    rows, outputs = translator.input_rows(translator.encode(sources)), translator.encode_targets(targets)
    found = [[list(row), [*ids, 1]] for row, ids in zip(rows, outputs, strict=True)]
    wanted = [[[ours[n] for n in ids] for ids in both] for both in theirs["ids"]]
    yield _agreement("ids of inputs and targets", wanted, found)
    scores = [_log_probs(loaded, source, target) for source, target in found]
    worst = max(np.abs(np.array(a) - b).max() for a, b in zip(theirs["log_probs"], scores, strict=True))
    is_near = bool(worst < TOLERANCE)
    yield Row(check="difference of log-probabilities", expected=f"< {TOLERANCE:.0e}", found=f"{worst:.1e}", ok=is_near)
    inputs = [source for source, _ in found]
    greedy, beam = ([[ours[n] for n in ids] for ids in theirs[name]] for name in ("greedy", "beam"))
    yield _agreement("outputs of greedy search", greedy, _outputs(translator, sources, beam_size=1))
    yield _beam_row(loaded, inputs, beam, _outputs(translator, sources, beam_size=SEARCH["beam_size"]))


def _exported(loaded: LoadedRun, folder: Path, interpreter: str, texts: Sequence[str]) -> Row:
    """Exports the run to the original format and verifies the export in the other program."""
    folder.mkdir()
    translator = loaded.translator()
    made = HuggingFaceExport(translator, ExportJob(folder=folder, format="huggingface"), interpreter)
    made.write(folder)
    check = "exported back: ids of inputs, outputs of greedy search"
    try:
        found = list(made.verify(folder, Trial(translator.encode(texts), texts)).values())[:2]
    except ParityError as error:
        return Row(check=check, expected="all the same", found=str(error), ok=False)
    said = ", ".join(f"{parity.identical} of {parity.inputs}" for parity in found)
    return Row(check=check, expected="all the same", found=said, ok=True)


def _outputs(translator: Translator, texts: Sequence[str], beam_size: int) -> list[list[int]]:
    settings: dict[str, Any] = {"beam_size": beam_size, "alpha": 0.0, "extra_length": SEARCH["extra_length"]}
    return [list(best[0].ids) for best in translator.translate_ids(translator.encode(texts), **settings)]


def _beam_row(
    loaded: LoadedRun, inputs: Sequence[list[int]], theirs: Sequence[list[int]], ours: Sequence[list[int]]
) -> Row:
    """Compares outputs of beam search, which may differ if ours are more probable.

    transformers ends a hypothesis only if its end is among the best K of the 2K candidates of a step; our search ends
    it if its end is any of the 2K.
    """
    differ = [i for i in range(len(inputs)) if theirs[i] != ours[i]]
    gains = [
        _log_probs(loaded, inputs[i], ours[i]).sum() - _log_probs(loaded, inputs[i], theirs[i]).sum() for i in differ
    ]
    better = sum(gain > 0 for gain in gains)
    return Row(
        check="outputs of beam search",
        expected=f"{len(inputs)} the same, or ours more probable",
        found=f"{len(inputs) - len(differ)} the same, {better} more probable, {len(differ) - better} less",
        ok=better == len(differ),
    )


def _pairs(tag: str, lines: int) -> list[tuple[str, str]]:
    """Returns pairs of sentences; half of the sources start with the tag, some have a character unknown to all."""
    problem = get_problem("translate_ende_numbers")
    samples = problem.generate_samples("train", Source(tmp_dir=Path("."), rng=random.Random(1)))
    found = []
    for number, sample in zip(range(lines), samples, strict=False):
        source = f"{tag} {sample['inputs']}" if tag and number % 2 else sample["inputs"]
        found.append((f"{source} 数" if number % 5 == 0 else source, sample["targets"]))
    return found


def learn_of_marian(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Writes `source.spm`, `target.spm` and `vocab.json` in the format of OPUS-MT."""
    pieces: dict[str, None] = {}
    for side, texts in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        content = _learn(texts)
        (folder / f"{side}.spm").write_bytes(content)
        model = sentencepiece.SentencePieceProcessor(model_proto=content)
        pieces |= dict.fromkeys(model.id_to_piece(number) for number in range(3, len(model)))
    table = ["</s>", "<unk>", *pieces, TAG, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(table)}))


def learn_of_t5(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Writes `spiece.model` in the format of T5, where its ids are those of the model."""
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    (folder / "spiece.model").write_bytes(_learn([text for pair in pairs for text in pair], **ids))


def learn_with_languages(folder: Path, pairs: Sequence[tuple[str, str]], model_type: str = "unigram") -> None:
    """Writes `sentencepiece.bpe.model` in the format of fairseq's models, which starts with `<unk>`, `<s>`, `</s>`."""
    content = _learn([text for pair in pairs for text in pair], model_type=model_type)
    (folder / "sentencepiece.bpe.model").write_bytes(content)


def learn_of_m2m(folder: Path, pairs: Sequence[tuple[str, str]]) -> None:
    """Writes `sentencepiece.bpe.model` and `vocab.json` in the format of M2M-100."""
    learn_with_languages(folder, pairs)
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    table = ["<s>", "<pad>", "</s>", "<unk>", *(model.id_to_piece(number) for number in range(3, len(model)))]
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(table)}))


def _learn(texts: Sequence[str], **settings: Any) -> bytes:
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=content, vocab_size=_PIECES, minloglevel=2,
        **{"hard_vocab_limit": False} if settings.get("model_type") != "bpe" else {}, **settings,
    )  # fmt: skip
    return content.getvalue()


CASES = (
    Case("Marian", "hf_import", learn_of_marian, TAG),
    *(Case(f"T5 {n}", "hf_import_t5", learn_of_t5, SENTINEL, {"version": n}) for n in ("1.0", "1.1")),
    Case("mT5", "hf_import_t5", learn_of_t5, SENTINEL, {"version": "mT5"}),
    *(
        Case(name, "hf_import_languages", learn, "", {"kind": kind}, dict(zip(_LANGUAGES, languages, strict=True)))
        for name, kind, learn, languages in (
            ("M2M-100", "m2m", learn_of_m2m, ("en", "de")),
            ("NLLB", "nllb", functools.partial(learn_with_languages, model_type="bpe"), ("eng_Latn", "deu_Latn")),
            ("mBART", "mbart", learn_with_languages, ("en_XX", "de_DE")),
            ("mBART-50", "mbart50", learn_with_languages, ("en_XX", "de_DE")),
        )
    ),
)


NO_DROPOUT = {"dropout": 0, "attention_dropout": 0, "ffn_dropout": 0}
TOKEN_CASES = (
    TokenCase("Sockeye", "sockeye", "sockeye", "sockeye_import", {"decoder_type": "transformer", "stack": {}}),
    TokenCase("Sockeye's SSRU", "sockeye", "sockeye", "sockeye_import",
              {"deviation": 0.1, "decoder_type": "ssru_transformer", "stack": {"use_glu": True, "act_type": "swish1"}}),
    TokenCase("OpenNMT-py", "opennmt", "opennmt_py", "opennmt_py_import", {"flags": ["-position_encoding"]}),
    TokenCase("OpenNMT-py, relative positions", "opennmt", "opennmt_py", "opennmt_py_import",
              {"flags": ["-max_relative_positions", "5", "-pos_ffn_activation_fn", "gelu", "-add_qkvbias"]}),
    TokenCase("OpenNMT-tf", "opennmt_tf", "opennmt_tf", "opennmt_tf_import", {"network": NO_DROPOUT}),
    TokenCase("OpenNMT-tf, relative positions", "opennmt_tf", "opennmt_tf", "opennmt_tf_import",
              {"network": {**NO_DROPOUT, "position_encoder_class": None, "maximum_relative_position": 5,
                           "pre_norm": False, "ffn_activation": "opennmt.layers.gelu"}}),
    TokenCase("OpenNMT-tf, learned positions", "opennmt_tf", "opennmt_tf", "opennmt_tf_import",
              {"network": {**NO_DROPOUT, "position_encoder_class": "opennmt.layers.PositionEmbedder",
                           "mha_bias": False, "ffn_activation": "tf.nn.gelu"}}),
    TokenCase("Eole", "opennmt", "opennmt_py", "eole_import",
              {"model": {"mlp_activation_fn": "gated-silu", "layer_norm": "rms"}}),
)  # fmt: skip


def _renumbered(size: int, first: Sequence[int]) -> dict[int, int]:
    """Returns foreign id -> our id; `first` are the foreign ids of padding, end of sequence and the unknown token."""
    return {number: place for place, number in enumerate([*first, *(n for n in range(size) if n not in first)])}


def _log_probs(loaded: LoadedRun, source: list[int], target: list[int]) -> np.ndarray:
    batch = {"inputs": np.array([source], np.int32), "targets": np.array([target], np.int32)}
    return np.asarray(loaded.model.score_targets(batch).log_probs)[0]


def _agreement(check: str, expected: Sequence[Any], found: Sequence[Any]) -> Row:
    same = sum(a == b for a, b in zip(expected, found, strict=True))
    total = len(expected)
    return Row(check=check, expected=f"{total} the same", found=f"{same} of {total}", ok=same == total)


def _import(case: Case, model_dir: Path, output_dir: Path) -> LoadedRun:
    import_run(request_import(format="huggingface", model_dir=model_dir, output_dir=output_dir, **case.languages))
    return load(str(output_dir))


def _same_weights(case: Case, folder: Path, model_dir: Path, name: str, loaded: LoadedRun) -> Row:
    """Imports the weights from a PyTorch file of a kind, `zip` or `stream`, and compares every variable."""
    other = folder / name
    shutil.copytree(model_dir, other, ignore=shutil.ignore_patterns("*.safetensors", "*.bin"))
    shutil.copy(model_dir / f"{name}.bin", other / "pytorch_model.bin")
    found = _import(case, other, folder / f"run_{name}")
    pairs = zip(loaded.model.variables, found.model.variables, strict=True)
    return _agreement(f"weights of pytorch_model.bin ({name})", [True] * len(loaded.model.variables),
                      [bool(np.array_equal(np.asarray(a), np.asarray(b))) for a, b in pairs])  # fmt: skip
