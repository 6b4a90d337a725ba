"""The languages of a problem, and the tags and codes that mark them in the ids of texts."""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.specs import INPUTS, TARGETS
from t2t.text.encoder import BEGIN, NONE, LanguageCodes, LanguageMarks, TextEncoder
from t2t.text.label import LabelEncoder
from t2t.text.tags import find_tag, tagged_languages


class Languages:
    """The languages of a problem. Tags are an option of its data, codes a property of its vocabulary.

    Args:
        problem: a `Problem`, with its languages, options and vocabularies.
    """

    def __init__(self, problem: Any):
        self._problem = problem

    @property
    def _requested(self) -> Mapping[str, str]:
        """By feature, the languages to use in place of `source_language` and `target_language`."""
        requested: Mapping[str, str] = self._problem.__dict__.get("_requested_languages", {})
        return requested

    @property
    def output(self) -> str:
        """Code of the language that outputs are written in: that of `use`, or `target_language`."""
        language: str = self._requested.get(TARGETS) or self._problem.target_language
        return language

    def reserve_tags(self, encoders: Mapping[str, TextEncoder]) -> dict[str, TextEncoder]:
        """Returns vocabularies in which no text spells a tag, if the problem puts tags in front of texts.

        Without that option, a tag is a part of the text, as any piece is. Features that share a vocabulary still do.
        """
        if not self._tags:
            return dict(encoders)
        texts = {id(one): one for one in encoders.values() if not isinstance(one, LabelEncoder)}
        reserved = {key: one.reserving(tagged_languages(one).values()) for key, one in texts.items()}
        return {name: reserved.get(id(one), one) for name, one in encoders.items()}

    def use(self, source: str = "", target: str = "") -> None:
        """Overrides the languages in the marks of texts: of the inputs, of the outputs; empty for the problem's own.

        Raises:
            UserError: texts have neither tags nor codes, or there is none for that language; then the languages stay
                as they were.
        """
        problem = self._problem
        codes = _codes(problem.encoders, TARGETS)
        if source and not _codes(problem.encoders, INPUTS):
            raise UserError(
                f"inputs of {problem.name} do not say their own language",
                "leave it out",
                option="source_language",
                value=source,
            )
        if target and not codes:
            if not self._tags:
                raise UserError(
                    f"inputs of {problem.name} have no language tags",
                    "leave it out, or train a run with --language_tags",
                    option="target_language",
                    value=target,
                )
            find_tag(problem.encoders[INPUTS], target, f"--target_language={target}")
        elif target and codes and codes.target == NONE and target != problem.target_language:
            raise UserError(
                "the model itself begins outputs with one language, "
                f"{problem.target_language or 'that of its hparams'}",
                f"import it again with --target_language={target}",
                option="target_language",
                value=target,
            )
        before = self._requested
        problem._requested_languages = {INPUTS: source, TARGETS: target}
        if source or target:
            try:
                self.marks()
            except UserError:
                problem._requested_languages = before
                raise

    def marks(self, encoders: Mapping[str, TextEncoder] | None = None) -> LanguageMarks:
        """Returns the ids to add around texts: a tag of the target language, or codes of both languages.

        Args:
            encoders: vocabularies that have not been passed to `with_encoders` yet; None for the problem's own.

        Raises:
            UserError: the problem does not declare a language that is needed, or the vocabulary has no tag or code
                for it.
        """
        encoders = self._problem.encoders if encoders is None else encoders
        if self._tags:
            return LanguageMarks(input_start=(self._find_input_tag(encoders),))
        source, target = (_codes(encoders, feature) for feature in (INPUTS, TARGETS))
        marks, columns = LanguageMarks(), self._problem.columns or {}
        if columns and len(set(columns.values())) < len(columns) and (source or target):
            raise UserError(
                f"problem {self._problem.name}: its vocabulary has codes of languages, which differ between inputs "
                "and outputs, and here both are one text",
                "name a problem with two sides",
            )
        if source:
            code = (self._language_code(INPUTS, source),)
            marks = marks._replace(**{"input_start" if source.source == BEGIN else "input_end": code})
        if target and target.target == BEGIN:
            marks = marks._replace(output_start=(self._language_code(TARGETS, target),))
        return marks

    @property
    def _tags(self) -> str:
        """The option `language_tags`, where the problem has it."""
        return getattr(self._problem.options, "language_tags", "")

    def _language_code(self, feature: str, codes: LanguageCodes) -> int:
        name = {INPUTS: "source_language", TARGETS: "target_language"}[feature]
        language = self._requested.get(feature) or getattr(self._problem, name)
        if not language:
            raise UserError(
                f"problem {self._problem.name} does not say its {name.replace('_', ' ')}, of which the vocabulary has "
                "codes",
                f"name it with --{name}",
            )
        return codes.find(language, f"--{name}={language}")

    def _find_input_tag(self, encoders: Mapping[str, TextEncoder]) -> int:
        """Returns the id of the tag of the target language."""
        name, language = self._problem.name, self.output
        if not language or INPUTS not in encoders:
            what = "has no inputs of text" if language else "does not say its target language"
            raise UserError(
                f"problem {name} {what}",
                "leave the tags out, or name the language with --target_language where the problem has that option",
                option="language_tags",
                value=self._tags,
            )
        return find_tag(encoders[INPUTS], language, f"--language_tags={self._tags}: problem {name}")


def _codes(encoders: Mapping[str, TextEncoder], feature: str) -> LanguageCodes | None:
    """Returns the language codes of a feature's vocabulary; None without any, or unless both sides are text."""
    return encoders[feature].languages if encoders.keys() >= {INPUTS, TARGETS} else None
