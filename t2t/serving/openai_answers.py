"""JSON of OpenAI's completions and chat completions: responses, whole or in chunks."""

import secrets
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool

from t2t.inference.hypothesis import Hypothesis
from t2t.serving.events import text_pieces
from t2t.serving.models import Answer, PartialAnswer, ServedModel

DONE = "[DONE]"
"""The last event of a stream."""


class Completion:
    """Builds the response to one request, with its id and creation time.

    Args:
        model: the model that answers.
        is_chat: whether it is a chat completion.
    """

    def __init__(self, model: ServedModel, is_chat: bool):
        self._model, self._is_chat = model, is_chat
        kind, prefix = ("chat.completion", "chatcmpl") if is_chat else ("text_completion", "cmpl")
        self._kind = kind
        self._head = {"id": f"{prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": model.name}

    def response(self, texts: Sequence[str], answers: Sequence[Answer], n: int) -> dict[str, Any]:
        """Returns the response for several texts, with n choices for each, which clients count on."""
        choices = []
        for row, (text, answer) in enumerate(zip(texts, answers, strict=True)):
            prompt = self._model.prompt(text)
            for k, one in enumerate(_filled(answer.hypotheses, n)):
                content = one.text.removeprefix(prompt)
                body = {"message": {"role": "assistant", "content": content}} if self._is_chat else {"text": content}
                choices.append(_choice(row * n + k, body, one.finish_reason, answer))
        return self._object(self._kind, choices) | self._usage(answers)

    async def chunks(
        self, stream: AsyncIterator[PartialAnswer], text: str, n: int, include_usage: bool
    ) -> AsyncIterator[Any]:
        """Yields the answer to a text, with n choices, as OpenAI chunks, then `[DONE]`."""
        kind = self._kind + (".chunk" if self._is_chat else "")
        begun: set[int] = set()
        prompt = await run_in_threadpool(self._model.prompt, text)
        async for pieces, answer in text_pieces(stream, prompt):
            for number, piece in pieces.items():
                yield self._object(kind, [_choice(number, self._piece(piece, number not in begun), None)])
                begun.add(number)
            if answer is not None:
                for number, one in enumerate(_filled(answer.hypotheses, n)):
                    again = one.text.removeprefix(prompt) if number >= len(answer.hypotheses) else ""
                    last = self._piece(again, number not in begun)
                    yield self._object(kind, [_choice(number, last, one.finish_reason, answer)])
                if include_usage:
                    yield self._object(kind, []) | self._usage([answer])
        yield DONE

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
    index: int, body: dict[str, Any], finish_reason: str | None, answer: Answer | None = None
) -> dict[str, Any]:
    cut = {"cut": True} if answer and answer.cut else {}  # the prompt was truncated; OpenAI's interface lacks this key
    return {"index": index, **body, "logprobs": None, "finish_reason": finish_reason, **cut}
