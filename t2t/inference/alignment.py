"""Word alignments: for each word of an output, the word of the input that it attends to most; replacing unknown words.

The layers of the model run once on the whole output, as in `t2t.inference.attention`. The attention weights of a token
are those of the step that predicts it, summed over the tokens of each word. By default all heads of the last layer but
one are averaged, as in Garg et al. 2019 (arXiv:1909.02074). Keras is loaded when a model attends.

Legend: B batch, H heads, T target length, S source length, V words of the output, W words of the input.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from t2t.errors import UserError
from t2t.files.lines import LineSource, split_columns
from t2t.files.pharaoh import Links
from t2t.hparams.groups import DecodeHParams
from t2t.inference.hypothesis import Hypothesis
from t2t.inference.rows import Row, batches_of, memory_errors, padded
from t2t.problems.base import Problem, feature_of
from t2t.specs import EOS_ID, INPUTS, TARGETS, UNK_ID
from t2t.specs.features import FeatureKind
from t2t.text.encoder import TextEncoder

if TYPE_CHECKING:
    from t2t.models.base import SequenceModel
    from t2t.models.ensemble import Ensemble

LINEAR_UP_TO = 64
"""Rows of more ids count by the square of their length in the size of a batch, as their attention weights grow so."""


class WordAligner:
    """Aligns outputs of a model with their inputs, word by word.

    Args:
        model: with its weights; of an ensemble, the attention of all members is averaged.
        problem: with its vocabularies.

    Raises:
        UserError: inputs or outputs are not text, the problem rewrites outputs, or no layer attends to the inputs.
    """

    def __init__(self, model: "SequenceModel | Ensemble", problem: Problem):
        from t2t.inference.attention import ENCODER_DECODER, AttentionPass, of_kind
        from t2t.models.ensemble import Ensemble

        _check_texts(model, problem)
        members = model.members if isinstance(model, Ensemble) else (model,)
        passes = [AttentionPass(member) for member in members]
        self._attend = lambda *pair: [[*of_kind(one(*pair), ENCODER_DECODER).values()] for one in passes]
        """Returns for each model the weights of each layer that attends to the inputs, (B, H, T, S), lowest first."""
        self._problem = problem
        sample = np.array([[UNK_ID, EOS_ID]], np.int32)  # two positions: Keras warns of a softmax over one
        self._heads = []
        for member, layers in zip(members, self._attend(sample, sample), strict=True):
            if not layers:
                raise UserError(
                    f"alignments: no layer of model {member.registered_name()} attends to its inputs",
                    "choose a run of a model that does, or leave alignments and replace_unknown out",
                )
            self._heads.append([weights.shape[1] for weights in layers])
        for one in passes:
            one.compile()

    def check(self, hparams: DecodeHParams) -> None:
        """Raises UserError if a model lacks the layer or head, or targets no unknown token for `replace_unknown`."""
        vocabulary = self._problem.encoders[TARGETS]
        if hparams.replace_unknown and vocabulary.unknown_id is None:
            raise UserError(
                f"replace_unknown: the vocabulary of targets, of kind {vocabulary.kind}, has no unknown token",
                "leave it out, or use a run with a vocabulary of kind token, piece_table or bpe, or a word_list with "
                "UNK",
            )
        layer, head = hparams.alignment_layer, hparams.alignment_head
        for heads in self._heads:
            if layer > len(heads):
                raise UserError(
                    f"alignment_layer={layer}: layers of the model that attend to its inputs: {len(heads)}",
                    f"give a number from 1 to {len(heads)}, or 0 for the last but one",
                )
            if head > (most := heads[layer_index(layer, len(heads))]):
                raise UserError(
                    f"alignment_head={head}: heads of the layer: {most}",
                    f"give a number from 1 to {most}, or 0 for the mean of all",
                )

    def annotate(
        self,
        inputs: Sequence[tuple[Row, str | None]],
        found: Sequence[Sequence[Hypothesis]],
        hparams: DecodeHParams,
        dictionary: Mapping[str, str],
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses with alignments added and unknown words replaced, as `hparams` requests.

        Args:
            inputs: (ids as the model reads them, text) of each; text None to decode it from the ids.
            found: hypotheses of each input.
            hparams: what to add, the layer and head, and the size of batches.
            dictionary: translations of words of inputs, for unknown words.
        """
        flat = [(i, one) for i, hypotheses in enumerate(found) for one in hypotheses]
        rows, outputs = [inputs[i][0] for i, _ in flat], [one.ids for _, one in flat]
        sources = [inputs[i][1] for i, _ in flat]
        links = self.links(rows, outputs, hparams, sources=sources, join=feature_of(self._problem, TARGETS).join_words)
        annotated: list[list[Hypothesis]] = [[] for _ in found]
        for (i, one), own in zip(flat, links, strict=True):
            changes: dict[str, Any] = {}
            if hparams.replace_unknown and (unknown := self._unknown_words(one.ids)):
                row, source = inputs[i]
                source = self._problem.decode_input(row) if source is None else source
                replaced = tuple(link for link in own if link[1] in unknown)
                words = replace_words(one.text, source, replaced, dictionary)
                changes["text"] = " ".join(" ".join(words).split())
                own = renumber_links(own, words)
            if hparams.alignments:
                changes["alignment"] = own
            annotated[i].append(dataclasses.replace(one, **changes))
        return annotated

    def links(
        self,
        rows: Sequence[Row],
        outputs: Sequence[Sequence[int]],
        hparams: DecodeHParams,
        *,
        sources: Sequence[str | None] | None = None,
        targets: Sequence[str | None] | None = None,
        join: Callable[[str], str] = str,
    ) -> list[Links]:
        """Returns the links of each input and output, in ascending order.

        Args:
            rows: inputs as the model reads them, end of sequence included.
            outputs: as many rows of ids, end of sequence included where the model wrote it.
            hparams: the layer and head, and the size of batches.
            sources: text of each input, whose words are counted; None for the decoded ids.
            targets: text of each output, as `sources`.
            join: converts the text of a decoded output to the text whose words are counted.
        """
        encoders = self._problem.encoders
        marks = self._problem.languages.marks()  # not part of any word
        first, begun = len(marks.input_start), len(marks.output_start)
        found: list[Links] = [()] * len(rows)
        for number, weights_TS in self._weights(rows, outputs, hparams):
            source, target = (texts[number] if texts else None for texts in (sources, targets))
            source_words = _word_numbers(source, encoders[INPUTS], rows[number][first:], str)
            target_words = _word_numbers(target, encoders[TARGETS], outputs[number][begun:], join)
            found[number] = word_links(weights_TS[begun:, first:], source_words, target_words)
        return found

    def _unknown_words(self, ids: Sequence[int]) -> set[int]:
        """Returns the indices of the words of an output that contain the unknown token."""
        encoder = self._problem.encoders[TARGETS]
        numbers = word_numbers(encoder, ids, feature_of(self._problem, TARGETS).join_words)
        return {int(number) for number, token in zip(numbers, ids, strict=False) if token == encoder.unknown_id}

    def _weights(
        self, rows: Sequence[Row], outputs: Sequence[Sequence[int]], hparams: DecodeHParams
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yields the index of each pair and the mean of its chosen heads, (T, S) with padding."""
        lengths = np.array([max(len(row), len(ids)) for row, ids in zip(rows, outputs, strict=True)])
        sizes = np.maximum(lengths, lengths**2 // LINEAR_UP_TO)
        for indices, inputs_BS in batches_of(rows, sizes, hparams.decode_batch_size):
            targets_BT = padded([outputs[i] for i in indices])
            with memory_errors(targets_BT, 1):
                every = self._attend(inputs_BS, targets_BT)
            layer, head = hparams.alignment_layer, hparams.alignment_head
            of_models = (layers[layer_index(layer, len(layers))] for layers in every)  # (B, H, T, S) each
            chosen = [weights[:, head - 1] if head else weights.mean(axis=1) for weights in of_models]
            yield from zip(indices.tolist(), np.mean(chosen, axis=0), strict=True)


def _word_numbers(text: str | None, encoder: TextEncoder, ids: Row, join: Callable[[str], str]) -> np.ndarray:
    return word_numbers(encoder, ids, join) if text is None else word_numbers_in(text, encoder, ids)


def _check_texts(model: "SequenceModel | Ensemble", problem: Problem) -> None:
    """Raises UserError unless words of outputs can be linked to words of inputs."""
    features = model.spec.features
    no_text = [f"{name} are {spec.kind}" for name, spec in features.items() if spec.kind != FeatureKind.TOKENS]
    found = "it has no inputs" if model.spec.inputs is None else " and ".join(no_text)
    if found or problem.finishes or type(problem).decode_target is not Problem.decode_target:
        raise UserError(
            f"alignments of {problem.name}: {found or 'it rewrites outputs'}; alignments link words of an input to "
            "words that the model writes",
            "leave alignments and replace_unknown out",
        )


def layer_index(layer: int, count: int) -> int:
    """Returns the index of layer number `layer`, from 1; 0 is the last but one, or the only one."""
    return layer - 1 if layer else max(count - 2, 0)


def word_numbers(encoder: TextEncoder, ids: Iterable[int], join: Callable[[str], str] = str) -> np.ndarray:
    """Returns the index, from 0, of the word that each token is part of: the last word of the text up to the token.

    A token that is part of a character belongs to the word of the whole character, white space to the word before it.

    Args:
        encoder: of the ids.
        ids: of a text; end of sequence and later ids are ignored.
        join: converts the decoded text to the text whose words are counted.

    Returns:
        (tokens of words,) int; empty for a text without words.
    """
    tokens = list(itertools.takewhile(lambda token: token != EOS_ID, ids))
    texts = ["", *(encoder.certain_text(tokens[:end]) for end in range(1, len(tokens))), encoder.decode(tokens)]
    numbers = np.zeros(len(tokens), int)
    words = len(join(texts[-1]).split())
    for place in reversed(range(len(tokens))):
        if len(texts[place + 1]) > len(texts[place]):
            words = len(join(texts[place + 1]).split())
        numbers[place] = max(words - 1, 0)
    return numbers if join(texts[-1]).split() else numbers[:0]


def word_numbers_in(text: str, encoder: TextEncoder, ids: Iterable[int]) -> np.ndarray:
    """Returns the index of the word of a text that each of its ids is part of, as `word_numbers` of the ids.

    Normalization may make several words of one (of `l´homme`) or none, so words of the decoded ids are counted for each
    word of the text.
    """
    numbers, words = word_numbers(encoder, ids), text.split()
    counts = [len(encoder.decode(encoder.encode(word)).split()) for word in words]
    owners = np.repeat(np.arange(len(words)), counts)
    return owners[np.minimum(numbers, len(owners) - 1)] if len(owners) else numbers[:0]


def word_links(weights_TS: np.ndarray, source_words: np.ndarray, target_words: np.ndarray) -> Links:
    """Links each word of an output to the word of its input with the largest sum of weights; ties: the earlier one.

    Args:
        weights_TS: attention of each token of the output to each token of the input; both may have further tokens.
        source_words: the word of each token of the input, see `word_numbers`.
        target_words: the word of each token of the output.
    """
    if not source_words.size or not target_words.size:
        return ()
    weights_VW = np.zeros((target_words[-1] + 1, source_words[-1] + 1))
    np.add.at(weights_VW, (target_words[:, None], source_words), weights_TS[: len(target_words), : len(source_words)])
    return tuple(sorted((int(source), target) for target, source in enumerate(weights_VW.argmax(axis=1))))


def replace_words(text: str, source: str, links: Links, dictionary: Mapping[str, str]) -> list[str]:
    """Returns the words of an output; linked ones are replaced by the translation of their source word.

    A translation may have several words, or none. A source word that the dictionary lacks is copied.

    Args:
        text: the output.
        source: the input.
        links: those of the words to replace.
        dictionary: word of the input -> its translation.
    """
    words, source_words = text.split(), source.split()
    for source_place, target_place in links:
        word = source_words[source_place]
        words[target_place] = dictionary.get(word, word)
    return words


def renumber_links(links: Links, words: Sequence[str]) -> Links:
    """Converts links to words of an output to links to words of the text that `replace_words` made of it."""
    starts = list(itertools.accumulate((len(word.split()) for word in words), initial=0))
    return tuple(
        sorted((source, place) for source, target in links for place in range(starts[target], starts[target + 1]))
    )


DICTIONARY_COLUMNS = ("word", "translation")


def read_dictionary(path: str) -> dict[str, str]:
    """Reads a file of words and translations, plain or gzip; if a word occurs twice, its first line counts.

    Raises:
        UserError: there is no such file, a line has other columns, or an entry is not for a single word.
    """
    source = LineSource(path)
    found: dict[str, str] = {}
    for number, line in enumerate(source.lines(Counter()), start=1):
        word, translation = split_columns(line, DICTIONARY_COLUMNS, str(source), number)
        if word.split() != [word]:
            raise UserError(
                f"{source}: line {number:,} begins with {word[:40]!r}; its first column is one word, without white "
                "space",
                "correct the file",
            )
        found.setdefault(word, translation)
    return found
