"""The languages of a problem, and the tags and codes that mark them in the ids of texts."""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.label import LabelEncoder
from t2t.text.language_codes import BEGIN, NONE, LanguageCodes, LanguageMarks
from t2t.text.tags import find_tag, tagged_languages


class Languages:
    """The languages of a problem. Tags are an option of its data, codes a property of its vocabulary."""

    name: str
    options: Any
    encoders: Mapping[str, TextEncoder]
    """By feature name; set by `with_encoders` once the vocabularies exist."""
    source_language: str = ""
    """Code of the language of `inputs`, e.g. `en`; empty if it is unknown, or they are not text."""
    target_language: str = ""
    """Code of the language of `targets`; metrics choose their tokenizer by it."""

    @property
    def columns(self) -> dict[str, str] | None:
        """See `Problem.columns`."""
        raise NotImplementedError

    _asked_languages: Mapping[str, str] = {}
    """By feature, the languages to use in place of `source_language` and `target_language`."""

    @property
    def output_language(self) -> str:
        """Code of the language that outputs are written in: that of `use_languages`, or `target_language`."""
        return self._asked_languages.get(TARGETS) or self.target_language

    def reserve_tags(self, encoders: Mapping[str, TextEncoder]) -> dict[str, TextEncoder]:
        """Returns vocabularies in which no text spells a tag, if the problem puts tags in front of texts.

        Without that option, a tag is a part of the text, as any piece is. Features that share a vocabulary still do.
        """
        if not getattr(self.options, "language_tags", ""):
            return dict(encoders)
        texts = {id(one): one for one in encoders.values() if not isinstance(one, LabelEncoder)}
        reserved = {key: one.reserving(tagged_languages(one).values()) for key, one in texts.items()}
        return {name: reserved.get(id(one), one) for name, one in encoders.items()}

    def use_languages(self, source: str = "", target: str = "") -> None:
        """Overrides the languages in the marks of texts: of the inputs, of the outputs; empty for the problem's own.

        Raises:
            UserError: texts have neither tags nor codes, or there is none for that language.
        """
        codes = _codes(self.encoders, TARGETS)
        if source and not _codes(self.encoders, INPUTS):
            raise UserError(
                f"--source_language={source}: inputs of {self.name} do not say their own language; leave it out"
            )
        if target and not codes:
            if not getattr(self.options, "language_tags", ""):
                raise UserError(
                    f"--target_language={target}: inputs of {self.name} have no language tags; leave it out, or train "
                    f"a run with --language_tags"
                )
            find_tag(self.encoders[INPUTS], target, f"--target_language={target}")
        elif target and codes and codes.target == NONE and target != self.target_language:
            raise UserError(
                f"--target_language={target}: the model itself begins outputs with one language, "
                f"{self.target_language or 'that of its hparams'}; import it again with --target_language={target}"
            )
        self._asked_languages = {INPUTS: source, TARGETS: target}
        if source or target:
            self.language_marks()

    def language_marks(self, encoders: Mapping[str, TextEncoder] | None = None) -> LanguageMarks:
        """Returns the ids to add around texts: a tag of the target language, or codes of both languages.

        Args:
            encoders: vocabularies that have not been passed to `with_encoders` yet; None for the problem's own.

        Raises:
            UserError: the problem does not declare a language that is needed, or the vocabulary has no tag or code
                for it.
        """
        encoders = self.encoders if encoders is None else encoders
        if tags := getattr(self.options, "language_tags", ""):
            return LanguageMarks(input_start=(self._find_input_tag(tags, encoders),))
        source, target = (_codes(encoders, feature) for feature in (INPUTS, TARGETS))
        marks, columns = LanguageMarks(), self.columns or {}
        if columns and len(set(columns.values())) < len(columns) and (source or target):
            raise UserError(
                f"problem {self.name}: its vocabulary has codes of languages, which differ between inputs and outputs, "
                f"and here both are one text; name a problem with two sides"
            )
        if source:
            code = (self._language_code(INPUTS, source),)
            marks = marks._replace(**{"input_start" if source.source == BEGIN else "input_end": code})
        if target and target.target == BEGIN:
            marks = marks._replace(output_start=(self._language_code(TARGETS, target),))
        return marks

    def _language_code(self, feature: str, codes: LanguageCodes) -> int:
        name = {INPUTS: "source_language", TARGETS: "target_language"}[feature]
        language = self._asked_languages.get(feature) or getattr(self, name)
        if not language:
            raise UserError(
                f"problem {self.name} does not say its {name.replace('_', ' ')}, of which the vocabulary has codes; "
                f"name it with --{name}"
            )
        return codes.find(language, f"--{name}={language}")

    def _find_input_tag(self, tags: str, encoders: Mapping[str, TextEncoder]) -> int:
        """Returns the id of the tag of the target language; `tags` is the option, for messages."""
        language = self.output_language
        if not language or INPUTS not in encoders:
            what = "has no inputs of text" if language else "does not say its target language"
            raise UserError(
                f"--language_tags={tags}: problem {self.name} {what}; leave the tags out, or name the language with "
                f"--target_language where the problem has that option"
            )
        return find_tag(encoders[INPUTS], language, f"--language_tags={tags}: problem {self.name}")


def _codes(encoders: Mapping[str, TextEncoder], feature: str) -> LanguageCodes | None:
    """Returns the language codes of a feature's vocabulary; None without any, or unless both sides are text."""
    return encoders[feature].languages if encoders.keys() >= {INPUTS, TARGETS} else None
