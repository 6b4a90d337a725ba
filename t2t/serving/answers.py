"""Bodies of answers: each form is a struct, from which OpenAPI describes it; and server-sent events.

The interfaces are those of `t2t.serving.requests`.
"""

import json
import logging
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from t2t.errors import MachineError, UnknownNameError, UserError, one_line
from t2t.inference.hypothesis import STOP, Hypothesis
from t2t.serving.models import Answer, ContextLengthError, FullError, PartialAnswer, RefusedError, ServedModel
from t2t.serving.requests import SIGNATURE, ChatRequest, CompletionRequest

log = logging.getLogger("t2t")

OPENAI_PATHS = ("/v1/completions", "/v1/chat/completions")
"""Addresses of OpenAI's interface, whose errors have its form, as have those of its others, which are not served."""
CUT_INPUTS, CUT_OUTPUTS = "T2T-Cut-Inputs", "T2T-Cut-Outputs"
"""Headers of answers that are plain text."""
DONE = "[DONE]"
"""The last event of OpenAI's streams."""
RETRY_S = 1
"""Value of the Retry-After header, in seconds."""
_PARAM_NAMES = {"n_best": "n", "sampling_temperature": "temperature", "sampling_top_p": "top_p"}
"""OpenAI's names of fields."""
_LOG_CHARS = 300
"""Longest reason of a refusal in the log, in characters."""

_Reason = Literal["stop", "length"]
_True = Annotated[bool, Meta(extra_json_schema={"const": True})]


class _Form(msgspec.Struct, forbid_unknown_fields=True):
    """An object of an answer, without other fields than its own."""


# === Errors ===


class Error(_Form):
    """What was wrong, in one line."""

    error: str


CONTEXT_LENGTH: Literal["context_length_exceeded"] = "context_length_exceeded"
"""OpenAI's code for a text that is too long."""
MODEL_NOT_FOUND: Literal["model_not_found"] = "model_not_found"
"""OpenAI's code for a model that is not served."""


class OpenAIErrorFacts(_Form):
    """What was wrong, and with which field."""

    message: str
    type: str
    param: str | None
    code: Literal["context_length_exceeded", "model_not_found"] | None = None


class OpenAIError(_Form):
    """An error as OpenAI's clients expect it."""

    error: OpenAIErrorFacts


def error_response(path: str, error: Exception) -> JSONResponse:
    """Returns the response for an error; for a bug in the program, the client gets only the error's type."""
    headers: Any = None
    if isinstance(error, HTTPException):
        status, message, headers = error.status_code, error.detail, error.headers
    elif isinstance(error, RefusedError):
        status, message = error.status, str(error)
        headers = {"Retry-After": str(RETRY_S)} if isinstance(error, FullError) else None
    elif isinstance(error, UserError | MachineError):
        status = 503 if isinstance(error, MachineError) else 404 if isinstance(error, UnknownNameError) else 400
        message = one_line(error.message(_field(path, error.option)))
    else:
        status, message = 500, f"internal error ({type(error).__name__}); the log of the server has the details"
    return JSONResponse(to_json(_error(path, status, message, error)), status, headers=headers)


def _error(path: str, status: int, message: str, error: Exception) -> Error | OpenAIError:
    if not _is_openai(path):
        return Error(error=message)
    param: str | None = None
    code: Any = None
    if isinstance(error, ContextLengthError):
        code = CONTEXT_LENGTH
    elif isinstance(error, UnknownNameError):
        param, code = "model", MODEL_NOT_FOUND
    elif isinstance(error, UserError) and (name := error.option or error.hparam):
        param = _field(path, re.split(r"[.\[]", name)[0])  # messages[0].content is in messages
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    return OpenAIError(error=OpenAIErrorFacts(message=message, type=kind, param=param, code=code))


def _is_openai(path: str) -> bool:
    return path in OPENAI_PATHS or (path.startswith("/v1/") and not path.startswith("/v1/models"))


def _field(path: str, name: str) -> str:
    """Returns the name that a field has in the interface of a path."""
    return _PARAM_NAMES.get(name, name) if _is_openai(path) else name


def refuse(path: str, error: Exception) -> JSONResponse:
    """Logs an error, a bug with its traceback, and returns the response for it."""
    response = error_response(path, error)
    if not isinstance(error, HTTPException | RefusedError | UserError | MachineError):
        log.error("%s: a request failed", path, exc_info=error)
        return response
    reason = error.detail if isinstance(error, HTTPException) else one_line(error)
    printable = "".join(c if c.isprintable() else "\ufffd" for c in reason[:_LOG_CHARS])
    level = logging.WARNING if response.status_code >= 500 else logging.INFO
    log.log(level, "refused: %d %s: %s", response.status_code, path, printable)
    return response


# === The plain interface ===


class Output(_Form):
    """An output. It has `finish_reason` if it was cut at its limit."""

    text: str
    score: float
    log_prob: float | None
    finish_reason: Literal["length"] | UnsetType = UNSET


class TranslatedText(_Form):
    """The outputs for a text; `cut` says whether it was too long and was truncated, null if that is unknown."""

    outputs: list[Output]
    cut: bool | None


class Translations(_Form):
    """The outputs for texts; `text` is the best one if the request had one text instead of a list."""

    model: str
    translations: list[TranslatedText]
    text: str | UnsetType = UNSET


def translations(model: str, answers: Sequence[Answer], is_one: bool) -> Translations:
    """Returns the answer to a plain request."""
    found = [
        TranslatedText(
            outputs=[
                Output(
                    text=one.text, score=one.score, log_prob=one.log_prob, finish_reason="length" if one.cut else UNSET
                )
                for one in answer.hypotheses
            ],
            cut=answer.cut,
        )
        for answer in answers
    ]
    return Translations(model=model, translations=found, text=found[0].outputs[0].text if is_one else UNSET)


async def translation_events(model: str, stream: AsyncIterator[PartialAnswer], is_one: bool) -> AsyncIterator[Any]:
    """Yields the new text of each output, and then the answer to a plain request of one text."""
    async for pieces, answer in text_pieces(stream):
        for number, piece in pieces.items():
            yield {"output": number, "delta": piece}
        if answer is not None:
            yield translations(model, [answer], is_one)


def cut_lines(answers: Sequence[Answer]) -> dict[str, str]:
    """Returns headers with the numbers, from 1, of lines that were truncated and of lines whose output is cut."""
    cut = {
        CUT_INPUTS: [number for number, answer in enumerate(answers, start=1) if answer.cut],
        CUT_OUTPUTS: [number for number, answer in enumerate(answers, start=1) if answer.hypotheses[0].cut],
    }
    return {name: ", ".join(map(str, numbers)) for name, numbers in cut.items() if numbers}


# === TensorFlow Serving's interface ===


class PredictedRow(_Form):
    """The outputs for a text. All rows have the last two if a text or an output of the request was cut."""

    outputs: list[str]
    scores: list[float]
    cut: bool | UnsetType | None = UNSET
    finish_reasons: list[_Reason] | UnsetType = UNSET


class PredictedColumns(_Form):
    """The outputs for each text."""

    outputs: list[list[str]]
    scores: list[list[float]]
    cut: list[bool | None] | UnsetType = UNSET
    finish_reasons: list[list[_Reason]] | UnsetType = UNSET


class Prediction(_Form):
    """The answer to a predict request, by rows or by columns."""

    predictions: list[PredictedRow] | UnsetType = UNSET
    outputs: PredictedColumns | UnsetType = UNSET


def prediction(answers: Sequence[Answer], by_rows: bool) -> Prediction:
    """Returns the answer to a predict request, by rows or columns like the request."""
    columns: dict[str, list[Any]] = {
        "outputs": [[one.text for one in answer.hypotheses] for answer in answers],
        "scores": [[one.score for one in answer.hypotheses] for answer in answers],
    }
    if any(answer.cut for answer in answers):
        columns["cut"] = [answer.cut for answer in answers]
    if any(one.cut for answer in answers for one in answer.hypotheses):
        columns["finish_reasons"] = [[one.finish_reason for one in answer.hypotheses] for answer in answers]
    if not by_rows:
        return Prediction(outputs=PredictedColumns(**columns))
    rows = zip(*columns.values(), strict=True)
    return Prediction(predictions=[PredictedRow(**dict(zip(columns, row, strict=True))) for row in rows])


class VersionStatus(_Form):
    """The state of a loaded model; its version is its step."""

    version: str
    state: str = "AVAILABLE"
    status: dict[str, str] = msgspec.field(default_factory=lambda: {"error_code": "OK", "error_message": ""})


class OpenAIModel(_Form):
    """A model, as OpenAI has it."""

    id: str
    created: int
    object: Literal["model"] = "model"
    owned_by: str = "t2t"


class ModelStatus(_Form):
    """The state of a model, as TensorFlow Serving has it; without a version in the address also as OpenAI has it."""

    model_version_status: list[VersionStatus]
    id: str | UnsetType = UNSET
    created: int | UnsetType = UNSET
    object: Literal["model"] | UnsetType = UNSET
    owned_by: str | UnsetType = UNSET


class Models(_Form):
    """The models, by name and as OpenAI has them."""

    models: list[str]
    data: list[OpenAIModel]
    object: Literal["list"] = "list"


def metadata(name: str, step: int) -> dict[str, Any]:
    """Returns TensorFlow Serving's description of a model: the tensors that it takes and returns."""

    def tensor(dtype: str, *sizes: int) -> dict[str, Any]:
        dim = [{"size": str(size), "name": ""} for size in sizes]
        return {"dtype": dtype, "tensor_shape": {"dim": dim, "unknown_rank": False}, "name": ""}

    signature = {
        "inputs": {"text": tensor("DT_STRING", -1)},
        "outputs": {"outputs": tensor("DT_STRING", -1, -1), "scores": tensor("DT_FLOAT", -1, -1)},
        "method_name": "tensorflow/serving/predict",
    }
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(step)},
        "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}},
    }


# === OpenAI's interface ===


class Usage(_Form):
    """Counts of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class _Choice(_Form, kw_only=True):
    """An output. `cut`, which OpenAI's interface lacks, says that the prompt was too long and was truncated."""

    index: int
    logprobs: dict[str, Any] | None = None
    finish_reason: _Reason | None = None
    cut: _True | UnsetType = UNSET


class TextChoice(_Choice):
    """An output of a completion, or a piece of it."""

    text: str


class ChatMessage(_Form):
    """The message of the model."""

    content: str
    role: Literal["assistant"] = "assistant"


class ChatChoice(_Choice):
    """An output of a chat completion."""

    message: ChatMessage


class Delta(_Form):
    """A piece of a message; the first has the role."""

    content: str
    role: Literal["assistant"] | UnsetType = UNSET


class ChunkChoice(_Choice):
    """A piece of an output of a chat completion."""

    delta: Delta


class _Completion(_Form, kw_only=True):
    id: str
    created: int
    model: str
    usage: Usage | UnsetType = UNSET


class TextCompletion(_Completion):
    """The answer to a completion request, or a piece of it."""

    choices: list[TextChoice]
    object: Literal["text_completion"] = "text_completion"


class ChatCompletion(_Completion):
    """The answer to a chat completion request."""

    choices: list[ChatChoice]
    object: Literal["chat.completion"] = "chat.completion"


class ChatChunk(_Completion):
    """A piece of the answer to a chat completion request."""

    choices: list[ChunkChoice]
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"


class Completion:
    """Builds the answer to one of OpenAI's requests, with its id and creation time; `model` answers."""

    def __init__(self, model: ServedModel, asked: CompletionRequest | ChatRequest):
        self._model, self._asked, self._is_chat = model, asked, isinstance(asked, ChatRequest)
        self._n, self._stops = asked.n or 1, asked.stops
        prefix = "chatcmpl" if self._is_chat else "cmpl"
        self._head: dict[str, Any] = {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model.name,
        }

    def response(self, texts: Sequence[str], answers: Sequence[Answer]) -> TextCompletion | ChatCompletion:
        """Returns the response, with n choices for each text, which clients count on."""
        choices: list[Any] = []
        for text, answer in zip(texts, answers, strict=True):
            prompt, echo = self._model.prompt(text), text if self._asked.echo else ""
            for one in _filled(answer.hypotheses, self._n):
                content, reason = self._ended(one, prompt)
                facts = self._facts(len(choices), reason, answer) | {"logprobs": self._logprobs(one)}
                content = echo + content
                choices.append(
                    ChatChoice(message=ChatMessage(content=content), **facts) if self._is_chat
                    else TextChoice(text=content, **facts)
                )  # fmt: skip
        form = ChatCompletion if self._is_chat else TextCompletion
        return form(choices=choices, usage=self._usage(answers), **self._head)

    async def chunks(self, text: str, stream: AsyncIterator[PartialAnswer]) -> AsyncIterator[Any]:
        """Yields the answer to a request of one text, with n choices, as OpenAI's chunks, then `[DONE]`."""
        echo = text if self._asked.echo else ""
        begun: set[int] = set()

        def chunk(number: int, piece: str, **facts: Any) -> TextCompletion | ChatChunk:
            is_first = number not in begun
            begun.add(number)
            return self._chunk([self._piece(echo * is_first + piece, is_first, **self._facts(number, **facts))])

        prompt = await run_in_threadpool(self._model.prompt, text)
        async for pieces, answer in text_pieces(stream, prompt, self._stops):
            for number, piece in pieces.items():
                yield chunk(number, piece)
            if answer is not None:
                for number, one in enumerate(_filled(answer.hypotheses, self._n)):
                    content, reason = self._ended(one, prompt)
                    yield chunk(number, content * (number >= len(answer.hypotheses)), reason=reason, answer=answer)
                if self._asked.stream_options and self._asked.stream_options.include_usage:
                    yield self._chunk([], self._usage([answer]))
        yield DONE

    def _ended(self, one: Hypothesis, prompt: str) -> tuple[str, str]:
        """Returns the text of a choice without its prompt, and why it ends."""
        whole = one.text.removeprefix(prompt)
        content = before_stop(whole, self._stops)
        return content, one.finish_reason if content == whole else STOP

    def _facts(self, index: int, reason: str | None = None, answer: Answer | None = None) -> dict[str, Any]:
        return {"index": index, "finish_reason": reason, "cut": True if answer and answer.cut else UNSET}

    def _logprobs(self, one: Hypothesis) -> dict[str, Any] | None:
        """Returns the pieces of an output with their log-probabilities, if the request asks for them."""
        if not self._asked.wants_logprobs:
            return None
        tokens = one.tokens or ()  # a blank text has no output; models without inputs have no such scores
        if self._is_chat:
            more: dict[str, Any] = {"bytes": None, "top_logprobs": []}
            return {"content": [{"token": piece, "logprob": value, **more} for piece, value in tokens]}
        pieces, values = [piece for piece, _ in tokens], [value for _, value in tokens]
        return {"tokens": pieces, "token_logprobs": values, "top_logprobs": None, "text_offset": None}

    def _piece(self, text: str, is_first: bool, **facts: Any) -> TextChoice | ChunkChoice:
        if not self._is_chat:
            return TextChoice(text=text, **facts)
        return ChunkChoice(delta=Delta(content=text, role="assistant" if is_first else UNSET), **facts)

    def _chunk(self, choices: list[Any], usage: Usage | UnsetType = UNSET) -> TextCompletion | ChatChunk:
        return (ChatChunk if self._is_chat else TextCompletion)(choices=choices, usage=usage, **self._head)

    def _usage(self, answers: Iterable[Answer]) -> Usage | UnsetType:
        """Returns the token counts of the response; UNSET if they are unknown."""
        read = written = 0
        for answer in answers:
            if answer.length is None or answer.written is None:
                return UNSET
            read += answer.length
            written += answer.written
        return Usage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


def _filled(hypotheses: Sequence[Hypothesis], n: int) -> Sequence[Hypothesis]:
    """Returns n hypotheses, the last one repeatedly if there are fewer, as for a blank text."""
    return [*hypotheses, *[hypotheses[-1]] * (n - len(hypotheses))]


# === Streams ===


def event(data: Any) -> bytes:
    """Returns a server-sent event (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    text = data if isinstance(data, str) else json.dumps(to_json(data), ensure_ascii=False, allow_nan=False)
    return f"data: {text}\n\n".encode()


def to_json(data: Any) -> Any:
    """Returns a struct as objects of JSON; leaves anything else as it is."""
    return msgspec.to_builtins(data) if isinstance(data, msgspec.Struct) else data


async def text_pieces(
    stream: AsyncIterator[PartialAnswer], prompt: str = "", stops: Sequence[str] = ()
) -> AsyncIterator[tuple[dict[int, str], Answer | None]]:
    """Yields the new text of each output, by its index, and with the last piece the complete answer.

    Args:
        stream: partial answers for one text.
        prompt: prefix of the outputs that is not sent.
        stops: texts before the first of which an output ends.
    """
    sent: dict[int, int] = {}
    async for partial in stream:
        found = {}
        for number, whole in enumerate(partial.texts):
            text = whole.removeprefix(prompt) if partial.answer or whole.startswith(prompt) else ""
            text = before_stop(text, stops, is_whole=partial.answer is not None)
            if piece := text[sent.get(number, 0) :]:
                found[number] = piece
                sent[number] = len(text)
        if found or partial.answer:
            yield found, partial.answer


def before_stop(text: str, stops: Sequence[str], is_whole: bool = True) -> str:
    """Returns a text up to the first of the stops; of one that goes on, without an end that may begin a stop."""
    if found := [text.index(stop) for stop in stops if stop in text]:
        return text[: min(found)]
    begun = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return text if is_whole or not begun else text[: -max(begun)]
