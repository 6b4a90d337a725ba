"""JSON of OpenAI's completions and chat completions: responses, whole or in chunks."""

import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool

from t2t.inference.hypothesis import STOP, Hypothesis
from t2t.serving.events import before_stop, text_pieces
from t2t.serving.models import Answer, PartialAnswer, ServedModel
from t2t.serving.openai_requests import TOKEN_SCORES, OpenAIRequest

DONE = "[DONE]"
"""The last event of a stream."""


class Completion:
    """Builds the response to one request, with its id and creation time.

    Args:
        model: the model that answers.
        asked: the request.
        is_chat: whether it is a chat completion.
    """

    def __init__(self, model: ServedModel, asked: OpenAIRequest, is_chat: bool):
        self._model, self._asked, self._is_chat = model, asked, is_chat
        self._n = asked.n or 1
        kind, prefix = ("chat.completion", "chatcmpl") if is_chat else ("text_completion", "cmpl")
        self._kind = kind
        self._head = {"id": f"{prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.name}

    def response(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """Returns the response, with n choices for each text, which clients count on."""
        choices = []
        for row, (text, answer) in enumerate(zip(self._asked.texts, answers, strict=True)):
            prompt, echo = self._model.prompt(text), text if self._asked.echo else ""
            for k, one in enumerate(_filled(answer.hypotheses, self._n)):
                content, reason = self._ended(one, prompt)
                content = echo + content
                body = {"message": {"role": "assistant", "content": content}} if self._is_chat else {"text": content}
                choices.append(_choice(row * self._n + k, body, reason, answer, self._logprobs(one)))
        return self._object(self._kind, choices) | self._usage(answers)

    async def chunks(self, stream: AsyncIterator[PartialAnswer]) -> AsyncIterator[Any]:
        """Yields the answer to a request of one text, with n choices, as OpenAI chunks, then `[DONE]`."""
        text = self._asked.texts[0]
        echo = text if self._asked.echo else ""
        kind = self._kind + (".chunk" if self._is_chat else "")
        begun: set[int] = set()
        prompt = await run_in_threadpool(self._model.prompt, text)
        async for pieces, answer in text_pieces(stream, prompt, self._asked.stops):
            for number, piece in pieces.items():
                is_first = number not in begun
                yield self._object(kind, [_choice(number, self._piece(echo * is_first + piece, is_first), None)])
                begun.add(number)
            if answer is not None:
                for number, one in enumerate(_filled(answer.hypotheses, self._n)):
                    content, reason = self._ended(one, prompt)
                    again = content if number >= len(answer.hypotheses) else ""
                    is_first = number not in begun
                    last = self._piece(echo * is_first + again, is_first)
                    yield self._object(kind, [_choice(number, last, reason, answer)])
                if self._asked.include_usage:
                    yield self._object(kind, []) | self._usage([answer])
        yield DONE

    def _ended(self, one: Hypothesis, prompt: str) -> tuple[str, str]:
        """Returns the text of a choice without its prompt, and why it ends."""
        whole = one.text.removeprefix(prompt)
        content = before_stop(whole, self._asked.stops)
        return content, one.finish_reason if content == whole else STOP

    def _logprobs(self, one: Hypothesis) -> dict[str, Any] | None:
        """Returns the pieces of an output with their log-probabilities, if the request asks for them."""
        if TOKEN_SCORES not in self._asked.changes:
            return None
        tokens = one.tokens or ()  # a blank text has no output; models without inputs have no such scores
        if self._is_chat:
            more: dict[str, Any] = {"bytes": None, "top_logprobs": []}
            return {"content": [{"token": piece, "logprob": value, **more} for piece, value in tokens]}
        pieces, values = [piece for piece, _ in tokens], [value for _, value in tokens]
        return {"tokens": pieces, "token_logprobs": values, "top_logprobs": None, "text_offset": None}

    def _piece(self, text: str, is_first: bool) -> dict[str, Any]:
        if not self._is_chat:
            return {"text": text}
        return {"delta": {"role": "assistant", "content": text} if is_first else {"content": text}}

    def _object(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._head, "object": kind, "choices": choices}

    def _usage(self, answers: Iterable[Answer]) -> dict[str, Any]:
        """Returns the token counts of the response, or nothing if they are unknown."""
        read = written = 0
        for answer in answers:
            if answer.length is None:
                return {}
            read += answer.length
            free = answer.length if self._model.continues else 0  # outputs contain the ids of the prompt
            written += sum(max(len(one.ids) - free, 0) for one in answer.hypotheses)
        return {"usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}}


def _filled(hypotheses: Sequence[Hypothesis], n: int) -> Sequence[Hypothesis]:
    """Returns n hypotheses, the last one repeatedly if there are fewer, as for a blank text."""
    return [*hypotheses, *[hypotheses[-1]] * (n - len(hypotheses))]


def _choice(
    index: int,
    body: dict[str, Any],
    finish_reason: str | None,
    answer: Answer | None = None,
    logprobs: dict[str, Any] | None = None,
) -> dict[str, Any]:
    cut = {"cut": True} if answer and answer.cut else {}  # the prompt was truncated; OpenAI's interface lacks this key
    return {"index": index, **body, "logprobs": logprobs, "finish_reason": finish_reason, **cut}
