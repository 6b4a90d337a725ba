"""The languages of a problem, and the tags and codes that say them with texts."""

from collections.abc import Mapping
from typing import Any

from t2t.errors import UserError
from t2t.specs.constants import INPUTS, TARGETS
from t2t.text.encoder import TextEncoder
from t2t.text.language_codes import BEGIN, NONE, LanguageCodes, LanguageMarks
from t2t.text.tags import find_tag


class Languages:
    """What a problem says of its languages; tags are a choice of its data, codes a property of its vocabulary."""

    name: str
    options: Any
    encoders: Mapping[str, TextEncoder]
    """By feature name; set by `with_encoders` once the vocabularies exist."""
    source_language: str = ""
    """Code of the language of `inputs`, e.g. `en`; empty where it is not known, or they are no text."""
    target_language: str = ""
    """Code of the language of `targets`; metrics that split words go by it."""

    @property
    def columns(self) -> dict[str, str] | None:
        """See `Problem.columns`."""
        raise NotImplementedError

    _asked_languages: Mapping[str, str] = {}
    """By feature, what replaces `source_language` and `target_language` with texts."""

    def use_languages(self, source: str = "", target: str = "") -> None:
        """Makes inputs say that they are, or outputs are to be, in other languages; empty for those of the problem.

        Raises:
            UserError: texts have neither tags nor codes, or there is none of that language.
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
        """Returns the ids that stand around texts: a tag of the language of outputs, or codes of both languages.

        Args:
            encoders: vocabularies that the problem is not given yet; None for its own.

        Raises:
            UserError: the problem does not say a language that is needed, or the vocabulary has no tag or code of it.
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
        """Returns the id of the tag of the outputs' language; `tags` is the option."""
        language = self._asked_languages.get(TARGETS) or self.target_language
        if not language or INPUTS not in encoders:
            what = "has no inputs of text" if language else "does not say its target language"
            raise UserError(
                f"--language_tags={tags}: problem {self.name} {what}; leave the tags out, or name the language with "
                f"--target_language where the problem has that option"
            )
        return find_tag(encoders[INPUTS], language, f"--language_tags={tags}: problem {self.name}")


def _codes(encoders: Mapping[str, TextEncoder], feature: str) -> LanguageCodes | None:
    """Returns the codes of the vocabulary of a feature; None where it has none, or there are no inputs of text."""
    return encoders[feature].languages if encoders.keys() >= {INPUTS, TARGETS} else None
