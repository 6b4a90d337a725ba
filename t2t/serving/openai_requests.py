"""JSON of OpenAI's completions and chat completions: requests."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from t2t.decoding.settings import BEAM, GREEDY, SAMPLE
from t2t.errors import UserError
from t2t.inference.output_terms import REQUEST_KEYS, OutputTerms
from t2t.inference.settings import SEED
from t2t.serving.models import ServedModel
from t2t.serving.plain_requests import STREAM, TRUNCATE, option, output_terms, positive, search_changes, texts_of
from t2t.serving.search_changes import SEARCH_KEYS

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "frequency_penalty": (0,),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "parallel_tool_calls": (True, False),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
}
"""Unsupported parameters, with the values that are accepted because they change nothing."""
IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
"""Parameters that are ignored since they do not affect the answer."""
LOGPROBS, TOKEN_SCORES = "logprobs", "token_scores"
"""Key of the option that asks for log-probabilities of tokens, and the decode hparam that has them computed."""
LEAST_TEMPERATURE = 1e-3
"""A lower temperature means greedy search, as 0 does."""
MOST_STOPS = 4
_OWN = (
    "model", "n", "max_tokens", "temperature", "top_p", "stop", LOGPROBS, STREAM, "stream_options", TRUNCATE,
    *SEARCH_KEYS, *REQUEST_KEYS,
)  # fmt: skip


class OpenAIRequest(NamedTuple):
    """A parsed completion or chat completion request."""

    texts: list[str]
    n: int | None
    most_tokens: int | None
    changes: dict[str, Any]
    """Search settings to change, by name."""
    is_stream: bool
    include_usage: bool
    """Whether the last chunk counts tokens."""
    terms: OutputTerms | None
    """Constraints on the words of each output."""
    truncate: bool | None
    """Whether to truncate texts that are too long; None for the server's default."""
    stops: list[str]
    """Texts before the first of which an output ends."""
    echo: bool
    """Whether outputs begin with the prompt."""

    @property
    def n_searched(self) -> int:
        """Outputs to search for: a greedy search has one, which is repeated."""
        return 1 if self.changes.get("decode_method") == GREEDY else self.n or 1


def completion_request(data: dict[str, Any], model: ServedModel) -> OpenAIRequest:
    """Parses a completion request with one or several prompts; raises UserError if it is invalid or unsupported."""
    _check_keys(data, ("prompt", "echo"))
    prompt = data.get("prompt")
    return _request(data, model, texts_of([prompt] if isinstance(prompt, str) else prompt, "prompt"))


def chat_request(data: dict[str, Any], model: ServedModel) -> OpenAIRequest:
    """Parses a chat completion request; only the last user message is answered. Raises UserError if it is invalid."""
    _check_keys(data, ("messages", "max_completion_tokens"))
    return _request(data, model, [_last_user_text(data.get("messages"))])


def _request(data: dict[str, Any], model: ServedModel, texts: list[str]) -> OpenAIRequest:
    options = {} if data.get("stream_options") is None else data["stream_options"]
    if not isinstance(options, dict):
        raise UserError(f"stream_options {options!r:.60}: an object is wanted")
    limits = [value for name in ("max_tokens", "max_completion_tokens") if (value := positive(data, name))]
    return OpenAIRequest(
        texts=texts,
        n=positive(data, "n"),
        most_tokens=min(limits) if limits else None,
        changes=_changes(data, model),
        is_stream=bool(option(data, STREAM)),
        include_usage=options.get("include_usage") is True,
        terms=output_terms(data),
        truncate=option(data, TRUNCATE),
        stops=_stops(data),
        echo=bool(option(data, "echo")),
    )


def _stops(data: dict[str, Any]) -> list[str]:
    value = data.get("stop") or []
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise UserError(f"stop {value!r:.60}: a text or a list of texts is wanted")
    if len(stops) > MOST_STOPS:
        raise UserError(f"stop: {len(stops)} texts, at most {MOST_STOPS}; send fewer")
    return stops


def _check_keys(data: dict[str, Any], prompt: tuple[str, ...]) -> None:
    for name, value in data.items():
        if value is None or name in (*_OWN, *prompt, *IGNORED):
            continue
        if name not in NEUTRAL:
            raise UserError(f"{name!r:.60} is no part of a request; there are {', '.join((*prompt, *_OWN))}")
        if value not in NEUTRAL[name]:
            raise UserError(f"{name}={value!r:.60}: this is not supported; leave it out")


def _changes(data: dict[str, Any], model: ServedModel) -> dict[str, Any]:
    """Returns the search settings to change.

    A temperature above 0 or a top_p below 1 means sampling, a temperature of 0 or next to it greedy search. Without
    either, the run's own search is used, with a beam for all outputs. The seed is ignored unless the search samples.
    """
    changes = search_changes(data) | ({TOKEN_SCORES: True} if _wants_logprobs(data) else {})
    temperature, top_p = _number(data, "temperature"), _number(data, "top_p")
    if temperature is not None and temperature < LEAST_TEMPERATURE:
        changes.setdefault("decode_method", GREEDY)
    elif temperature is not None or (top_p is not None and top_p != 1):
        given = {"sampling_temperature": temperature, "sampling_top_p": top_p}
        changes = {"decode_method": SAMPLE} | {k: v for k, v in given.items() if v is not None} | changes
    own = model.translator.hparams.decode_method if model.translator else BEAM
    if changes.get("decode_method", own) != SAMPLE:
        seed = changes.pop(SEED, 0)
        if type(seed) is not int:
            raise UserError(f"{SEED}={seed!r:.60}: it is of type {type(seed).__name__}; give a whole number")
    n = positive(data, "n") or 1
    has_beam = model.translator and model.translator.facts.autoregressive
    if has_beam and changes.get("decode_method", own) == BEAM and n > model.translator.hparams.beam_size:
        changes.setdefault("beam_size", n)
    return changes


def _wants_logprobs(data: dict[str, Any]) -> bool:
    """Returns whether log-probabilities of the tokens written are asked for: by true in a chat, else by 0."""
    value = data.get(LOGPROBS)
    if value is None or value is False:
        return False
    wanted = True if "messages" in data else 0
    if type(value) is not type(wanted) or value != wanted:
        raise UserError(
            f"{LOGPROBS}={value!r:.60}: there are those of the tokens written, by true in a chat, else by 0"
        )
    if data.get(STREAM):
        raise UserError(f"{LOGPROBS}: there are none while an output is written; ask without {STREAM}")
    return True


def _number(data: dict[str, Any], name: str) -> float | None:
    value = data.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
        raise UserError(f"{name} {value!r:.60}: a number from 0 is wanted")
    return value


def _last_user_text(messages: Any) -> str:
    """Returns the text of the last user message; raises UserError without one."""
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise UserError("messages: a list of objects with role and content is wanted; send that")
    contents = [one.get("content") for one in messages if one.get("role") == "user"]
    if not contents:
        raise UserError("messages: none has the role user; send one, its content is answered")
    content = contents[-1]
    if content is None:
        raise UserError("messages: the content of the last message of the user is null; send a text")
    if isinstance(content, list):
        if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
            raise UserError("messages: a content of several parts has parts of type text alone; send those")
        content = "".join(texts_of([part.get("text") for part in content], "messages"))
    (text,) = texts_of([content], "messages")
    return text
