"""What Slack's incoming webhook refuses, by the limits Slack publishes for messages and Block Kit."""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_BLOCKS = 50
MAX_SECTION_TEXT = 3000
MAX_HEADER_TEXT = 150
MAX_FIELDS = 10
MAX_FIELD_TEXT = 2000
MAX_CONTEXT_ELEMENTS = 10
MAX_ACTIONS = 25
MAX_TOTAL = 13_200  # undocumented; what Slack takes in practice (slackapi/bolt-js#2509)


def refusal(payload: Any) -> str | None:
    """Slack's error word for a payload it does not take, None for a good one."""
    if not isinstance(payload, Mapping):
        return "invalid_payload"
    text, blocks = payload.get("text"), payload.get("blocks")
    if text is not None and not isinstance(text, str):
        return "invalid_payload"
    if not text and not blocks:
        return "no_text"
    if blocks is None:
        return None
    if not isinstance(blocks, list) or len(blocks) > MAX_BLOCKS or not all(map(_block_ok, blocks)):
        return "invalid_blocks"
    if sum(map(_length, blocks)) > MAX_TOTAL:
        return "msg_blocks_too_long"
    return None


def _block_ok(block: Any) -> bool:
    match block:
        case {"type": "divider"}:
            return True
        case {"type": "header", "text": {"type": "plain_text", "text": str(text)}}:
            return 1 <= len(text) <= MAX_HEADER_TEXT
        case {"type": "section"}:
            text, fields = block.get("text"), block.get("fields")
            if text is None and not fields:
                return False
            return (text is None or _text_ok(text, MAX_SECTION_TEXT)) and _all_ok(fields, MAX_FIELDS)
        case {"type": "context", "elements": [_, *_] as elements}:
            return len(elements) <= MAX_CONTEXT_ELEMENTS and all(_element_ok(e) for e in elements)
        case {"type": "actions", "elements": [_, *_] as elements}:
            return len(elements) <= MAX_ACTIONS and all(isinstance(e, Mapping) for e in elements)
        case _:
            return False


def _all_ok(fields: Any, most: int) -> bool:
    if fields is None:
        return True
    return isinstance(fields, list) and len(fields) <= most and all(_text_ok(f, MAX_FIELD_TEXT) for f in fields)


def _element_ok(element: Any) -> bool:
    match element:
        case {"type": "image", "image_url": str(), "alt_text": str()}:
            return True
        case _:
            return _text_ok(element, MAX_SECTION_TEXT)


def _text_ok(value: Any, most: int) -> bool:
    match value:
        case {"type": "mrkdwn" | "plain_text", "text": str(text)}:
            return 1 <= len(text) <= most
        case _:
            return False


def _length(value: Any) -> int:
    """Characters of all texts in a block."""
    if isinstance(value, Mapping):
        own = value.get("text")
        return (len(own) if isinstance(own, str) else 0) + sum(
            _length(inner) for inner in value.values() if not isinstance(inner, str)
        )
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sum(map(_length, value))
    return 0
