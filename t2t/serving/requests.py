"""Bodies of requests: each form is a struct, which decodes and checks it in one step, and describes it for OpenAPI.

Three interfaces: a plain one; TensorFlow Serving's REST interface, with `instances` by rows or `inputs` by columns; and
OpenAI's completions and chat completions. What each asks of a model is a `Query`. In all of them, null is the same as
leaving a field out.
"""

import base64
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from t2t.errors import UserError
from t2t.files.lines import clean_line
from t2t.hparams.groups import DecodeHParams
from t2t.inference.output_constraints import REQUEST_KEYS, OutputTerms, read_terms
from t2t.search.settings import GREEDY, SAMPLE, SEED

SIGNATURE = "serving_default"
"""Name of the signature of TensorFlow Serving's interface."""
LEAST_TEMPERATURE = 1e-3
"""A lower temperature means greedy search, as 0 does."""
SERVED_MODELS, MOST_TEXTS = "<served models>", "<most texts>"
"""Values in schemas that a service fills in: the names of its models, and the most texts of a request."""

Form = TypeVar("Form")


class RequestError(UserError):
    """A mistake in a request; the option is the field of the body."""

    dashes = ""

    @staticmethod
    def shown(value: object) -> str:
        """Returns what a request had in a field, cut if it is long."""
        return f"{value!r:.60}"


# === Decoding ===


def decode(body: bytes, form: type[Form]) -> Form:
    """Returns a body of JSON as a form; raises RequestError if it is anything else."""
    try:
        data = json.loads(body)  # not msgspec, which refuses half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}", "send an object") from None
    if not isinstance(data, dict):
        raise RequestError(f"the body is a JSON {type(data).__name__}", "send an object")
    return convert(data, form)


def convert(data: Any, form: type[Form], name: str = "", *, strict: bool = True) -> Form:
    """Returns decoded JSON as a form.

    Args:
        data: decoded JSON, or texts by name where not `strict`.
        form: a struct or another type.
        name: what messages call the data; empty for a whole request.
        strict: whether texts are no numbers or truth values.

    Raises:
        RequestError: the data has not this form.
    """
    try:
        return msgspec.convert(data, form, strict=strict)
    except msgspec.ValidationError as error:
        raise _error_of(str(error), data, form, name) from None
    except UnicodeEncodeError:
        raise RequestError(f"{name or 'the body'}: a name of a field is not valid Unicode", "leave it out") from None


def _error_of(reason: str, data: Any, form: Any, name: str) -> RequestError:
    """Returns the error for what msgspec says, such as "Expected `int` >= 1, got `str` - at `$.beam_size`"."""
    said, _, path = reason.partition(" - at `$")
    path = (name + path.rstrip("`")).lstrip(".")
    if found := re.fullmatch("Object contains unknown field `(.*)`", said, re.S):
        known = getattr(form, "__struct_fields__", ()) if path == name else ()
        option = f"{found[1]:.60}"
        return RequestError(
            f"{path or 'a request'} has no such field",
            f"send any of {', '.join(known)}" if known else "leave it out",
            option=option if option.isprintable() else repr(option),
        )
    if found := re.fullmatch("Object missing required field `(.*)`", said):
        path = ".".join(filter(None, (path, found[1])))
        return RequestError("it is missing", "give it", option=path)
    value = _value_at(data, path.removeprefix(name).lstrip("."))
    said = re.sub("`", "", said[0].lower() + said[1:]).replace(" | ", " or ")
    if said.startswith("invalid enum value"):
        said = f"expected one of {', '.join(map(str, _choices(form, _field(path))))}"
    return RequestError(said, "give that or leave it out", option=path, value=value)


def _field(path: str) -> str:
    """Returns the first name of a path such as `messages[0].content`."""
    return re.split(r"[.\[]", path)[0]


def _value_at(data: Any, path: str) -> Any:
    """Returns the value that a path of msgspec leads to, as far as it is known."""
    for key in re.findall(r"\w+|\.\.\.", path):
        if key == "...":  # a value in an object, whose key msgspec does not say
            break
        data = data[int(key) if isinstance(data, list) else key]
    return data


def _choices(form: Any, field: str) -> list[Any]:
    """Returns the values that a field of a struct may have."""
    _, structs = msgspec.json.schema_components([form])
    found = structs[form.__name__]["properties"][field]
    return next(schema["enum"] for schema in found.get("anyOf", [found]) if "enum" in schema)


def texts_of(value: Any, name: str) -> list[str]:
    """Returns a list of texts as valid Unicode without NULs; raises RequestError for anything else."""
    return list(map(_clean, convert(value, Texts, name)))


def _clean(text: str) -> str:
    return clean_line(text.encode("utf-8", "surrogatepass"), Counter())


# === What requests ask of a model ===


@dataclasses.dataclass(frozen=True, kw_only=True)
class Query:
    """What a request asks of a model."""

    texts: Sequence[str]
    """At least one text."""
    n_best: int | None = None
    """Outputs for each text; None for the model's default."""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Search settings to change, by name."""
    most_tokens: int | None = None
    """Most ids of an output, without the text that it continues; None for the limit of the search."""
    terms: OutputTerms | None = None
    """Constraints on the words of each output; None without any."""
    stops: Sequence[str] = ()
    """Texts before the first of which an answer ends."""
    truncate: bool | None = None
    """Whether texts that are longer than the model reads are cut instead of refused; None as the server has it."""
    is_openai: bool = False
    """Whether a beam is as wide as `n_best`, and a seed is ignored where nothing is sampled."""


Count = Annotated[int, Meta(ge=1)]
Texts = Annotated[list[str], Meta(min_length=1)]
_TextOrTexts = str | Annotated[list[str], Meta(min_length=1, extra_json_schema={"maxItems": MOST_TEXTS})]
_Phrases = Annotated[
    list[Annotated[str, Meta(pattern=r"\S")]], Meta(description="Words of the outputs, see docs/constraints.md.")
]
ModelName = Annotated[
    str, Meta(description="The model to ask; by default the first.", extra_json_schema={"enum": SERVED_MODELS})
]
Truncate = Annotated[
    bool, Meta(description="Whether texts that are too long are truncated; by default as the server is started.")
]


def _hparam(name: str) -> Meta:
    """Returns the bounds and the description of a decode hparam."""
    rules = DecodeHParams.__dataclass_fields__[name].metadata
    condition = f" Read with {rules['used_when']}." if rules["used_when"] else ""
    return Meta(ge=rules["minimum"], le=rules["maximum"], description=rules["doc"] + condition)


class SearchRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Settings of the search, and constraints on outputs."""

    decode_method: Annotated[Literal["beam", "greedy", "sample", "mask_predict"], _hparam("decode_method")] | None = (
        None
    )
    beam_size: Annotated[int, _hparam("beam_size")] | None = None
    alpha: Annotated[float, _hparam("alpha")] | None = None
    extra_length: Annotated[int, _hparam("extra_length")] | None = None
    sampling_temperature: Annotated[float, _hparam("sampling_temperature")] | None = None
    sampling_top_k: Annotated[int, _hparam("sampling_top_k")] | None = None
    sampling_top_p: Annotated[float, _hparam("sampling_top_p")] | None = None
    seed: Annotated[int, Meta(description="Seed of sampling; without it, samples differ each time.")] | None = None
    constraints: _Phrases | None = None
    avoid: _Phrases | None = None
    choices: Annotated[_Phrases, Meta(min_length=1)] | None = None

    @property
    def changes(self) -> dict[str, Any]:
        """The search settings that are given."""
        return {name: value for name in SEARCH_KEYS if (value := getattr(self, name)) is not None}

    @property
    def terms(self) -> OutputTerms | None:
        """The constraints on outputs; None without any."""
        return read_terms({k: v for k in REQUEST_KEYS if (v := getattr(self, k)) is not None}, "the request")


SEARCH_KEYS = tuple(name for name in SearchRequest.__struct_fields__ if name not in REQUEST_KEYS)
"""Search settings of a request besides `n_best`."""
FIELDS = tuple(name for name in SEARCH_KEYS if name != SEED)
"""Decode hparams that a request may change."""


class _TextRequest(SearchRequest, kw_only=True):
    """Fields of all requests with settings."""

    model: ModelName | None = None
    stream: Annotated[bool, Meta(description="Whether to send the answer as server-sent events.")] | None = None
    truncate: Truncate | None = None


# === The plain interface ===


class LineQuery(msgspec.Struct):
    """Query parameters of `/translate`."""

    model: ModelName | None = None
    truncate: Truncate | None = None


class TranslationRequest(_TextRequest, kw_only=True):
    """A plain request. Texts are truncated by default, as the answer has `cut`."""

    text: _TextOrTexts
    n_best: Annotated[int, Meta(ge=1, description="Outputs for each text.")] | None = None

    @property
    def query(self) -> Query:
        """What is asked of the model."""
        texts = list(map(_clean, [self.text] if isinstance(self.text, str) else self.text))
        truncate = self.truncate is not False
        return Query(texts=texts, n_best=self.n_best, changes=self.changes, terms=self.terms, truncate=truncate)


# === TensorFlow Serving's interface ===


class Packed(msgspec.Struct, forbid_unknown_fields=True):
    """A text as bytes in base64."""

    b64: str


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A text by the name of its tensor, or as bytes in base64; either."""

    text: str | Packed | UnsetType = UNSET
    b64: str | UnsetType = UNSET


class Column(msgspec.Struct, forbid_unknown_fields=True):
    """Texts by the name of their tensor."""

    text: Annotated[list[str | Packed], Meta(min_length=1, extra_json_schema={"maxItems": MOST_TEXTS})]


class PredictRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A predict request: either `instances`, row by row, or `inputs`, by columns."""

    signature_name: Literal["serving_default", ""] | None = None
    instances: (
        Annotated[
            list[str | Row],
            Meta(min_length=1, extra_json_schema={"maxItems": MOST_TEXTS}),
        ]
        | UnsetType
    ) = UNSET
    inputs: (
        Annotated[list[str | Packed], Meta(min_length=1, extra_json_schema={"maxItems": MOST_TEXTS})]
        | Column
        | UnsetType
    ) = UNSET
    truncate: Truncate | None = None

    @property
    def by_rows(self) -> bool:
        """Whether the texts came by rows."""
        return self.instances is not UNSET

    @property
    def query(self) -> Query:
        """What is asked of the model; raises RequestError for both forms or neither, and for what is no base64."""
        rows: Sequence[str | Packed | Row]
        if self.instances is not UNSET and self.inputs is UNSET:
            name, rows = "instances", self.instances
        elif self.inputs is not UNSET and self.instances is UNSET:
            name, rows = "inputs", self.inputs.text if isinstance(self.inputs, Column) else self.inputs
        else:
            raise RequestError(
                'a predict request has either "instances", row by row, or "inputs", by columns', "send one"
            )
        return Query(texts=[_unpacked(row, name) for row in rows], truncate=self.truncate)


EITHER = {Row: ("text", "b64"), PredictRequest: ("instances", "inputs")}
"""Struct -> its fields of which an object has exactly one."""


def _unpacked(row: str | Packed | Row, name: str) -> str:
    """Returns the text of a row."""
    given: Any = row
    if isinstance(row, Row):
        if (row.text is UNSET) == (row.b64 is UNSET):
            raise RequestError('a row is a text, or an object with "text" or "b64"', "send that", option=name)
        given = row if row.text is UNSET else row.text
    if isinstance(given, str):
        return _clean(given)
    try:
        return _clean(base64.b64decode(given.b64, validate=True).decode(errors="replace"))
    except ValueError as error:
        raise RequestError(f"b64 is not base64 ({error})", "send that, or the text itself", option=name) from None


# === OpenAI's interface ===


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a stream."""

    include_usage: Annotated[bool, Meta(description="Whether the last chunk counts tokens.")] | None = None
    include_obfuscation: bool | None = None


class TextFormat(msgspec.Struct, forbid_unknown_fields=True):
    """The only format of responses."""

    type: Literal["text"]


_Zero = Annotated[float, Meta(ge=0, le=0, description="Not supported: only the neutral value.")]
_EmptyList = Annotated[list[Any], Meta(max_length=0, description="Not supported: only the empty list.")]
_Stop = Annotated[str, Meta(min_length=1)]


class _OpenAIRequest(_TextRequest, kw_only=True):
    """Fields of completions and chat completions."""

    n: Annotated[int, Meta(ge=1, description="Choices for each prompt.")] | None = None
    max_tokens: Annotated[int, Meta(ge=1, description="Most tokens of an output, its end included.")] | None = None
    temperature: (
        Annotated[float, Meta(ge=0, description="Above 0 it samples; 0, and what is next to it, is greedy search.")]
        | None
    ) = None
    top_p: Annotated[float, Meta(gt=0, le=1, description="Below 1 it samples.")] | None = None
    stop: (
        str | Annotated[list[_Stop], Meta(max_length=4, description="An output ends before the first of them.")] | None
    ) = None
    stream_options: StreamOptions | None = None

    # Not supported: accepted with the values that change nothing.
    best_of: Literal[1] | None = None
    frequency_penalty: _Zero | None = None
    function_call: Literal["none"] | None = None
    functions: _EmptyList | None = None
    logit_bias: Annotated[dict[str, Any], Meta(max_length=0)] | None = None
    modalities: Annotated[list[Literal["text"]], Meta(min_length=1, max_length=1)] | None = None
    parallel_tool_calls: bool | None = None
    presence_penalty: _Zero | None = None
    response_format: TextFormat | None = None
    suffix: Literal[""] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    tools: _EmptyList | None = None
    top_logprobs: Literal[0] | None = None

    # Ignored: they do not affect the answer.
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None

    @property
    def stops(self) -> list[str]:
        """Texts before the first of which an output ends."""
        return [self.stop] if self.stop and isinstance(self.stop, str) else list(self.stop or ())

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities of the tokens written are asked for."""
        raise NotImplementedError

    def _query(self, texts: Sequence[str], limits: Sequence[int | None]) -> Query:
        """Returns what is asked of the model.

        A temperature above 0 or a top_p below 1 means sampling, a temperature of 0 or next to it greedy search. Without
        either, the run's own search is used.
        """
        changes = self.changes
        if self.wants_logprobs:
            if self.stream:
                raise RequestError("there are none while an output is written", "ask without stream", option="logprobs")
            changes["token_scores"] = True
        if self.temperature is not None and self.temperature < LEAST_TEMPERATURE:
            changes.setdefault("decode_method", GREEDY)
        elif self.temperature is not None or self.top_p not in (None, 1):
            given = {"sampling_temperature": self.temperature, "sampling_top_p": self.top_p}
            changes = {"decode_method": SAMPLE} | {k: v for k, v in given.items() if v is not None} | changes
        return Query(
            texts=list(map(_clean, texts)),
            n_best=1 if changes.get("decode_method") == GREEDY else self.n or 1,  # which has one, repeated in answers
            changes=changes,
            most_tokens=min((limit for limit in limits if limit is not None), default=None),
            terms=self.terms,
            stops=self.stops,
            truncate=self.truncate,
            is_openai=True,
        )


class CompletionRequest(_OpenAIRequest, kw_only=True):
    """A completion request."""

    prompt: _TextOrTexts
    echo: Annotated[bool, Meta(description="Whether outputs begin with their prompt.")] | None = None
    logprobs: (
        Annotated[
            int | bool, Meta(description="0 asks for those of the tokens.", extra_json_schema={"enum": [0, False]})
        ]
        | None
    ) = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities of the tokens written are asked for; raises RequestError for those of others."""
        if self.logprobs is True or self.logprobs:
            raise RequestError(
                "there are those of the tokens written", "ask for 0", option="logprobs", value=self.logprobs
            )
        return self.logprobs == 0 and self.logprobs is not False

    @property
    def query(self) -> Query:
        """What is asked of the model."""
        return self._query([self.prompt] if isinstance(self.prompt, str) else self.prompt, [self.max_tokens])


class MessagePart(msgspec.Struct):
    """A part of a message; only texts are read."""

    type: str
    text: str | None = None


class Message(msgspec.Struct):
    """A message of a conversation; other fields are ignored."""

    role: str = ""
    content: str | list[MessagePart] | None = None


class ChatRequest(_OpenAIRequest, kw_only=True):
    """A chat completion request; only the last message of the user is answered."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Count | None = None
    logprobs: Annotated[bool, Meta(description="Whether to return those of the tokens.")] | None = None
    echo = False

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities of the tokens written are asked for."""
        return bool(self.logprobs)

    @property
    def query(self) -> Query:
        """What is asked of the model; raises RequestError without a text of the user."""
        contents = [one.content for one in self.messages if one.role == "user"]
        content = contents[-1] if contents else None
        if content is None:
            raise RequestError("none of the user has a content", "send one, the last is answered", option="messages")
        if isinstance(content, list):
            if not all(part.type == "text" and part.text is not None for part in content):
                raise RequestError(
                    "a content of several parts has only parts of type text", "send those", option="messages"
                )
            content = "".join(part.text or "" for part in content)
        return self._query([content], [self.max_tokens, self.max_completion_tokens])
