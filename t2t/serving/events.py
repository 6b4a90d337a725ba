"""Responses as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.responses import StreamingResponse

from t2t.serving.address import EVENTS
from t2t.serving.errors import refuse
from t2t.serving.models import Answer, PartialAnswer


async def event_response(path: str, events: AsyncIterator[Any]) -> StreamingResponse:
    """Returns a response that sends each event, JSON or plain text, as soon as it is available.

    An error before the first event is raised; a later error is sent as the last event.
    """
    first = await anext(events)

    async def parts() -> AsyncIterator[bytes]:
        yield _event(first)
        try:
            async for event in events:
                yield _event(event)
        except Exception as error:
            yield b"data: " + bytes(refuse(path, error).body) + b"\n\n"

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts(), media_type=EVENTS, headers=headers)


def _event(data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, allow_nan=False)
    return f"data: {text}\n\n".encode()


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
