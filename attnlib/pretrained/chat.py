"""A conversation as SmolLM2 was taught to read it: each message between two markers.

The markers are tokens of their own. They enter as ids, and what the messages say as text, so no
message can end itself, or speak for somebody else, by spelling out a marker.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlib.pretrained.tokenizing import LanguageTokenizer

ROLES = ("system", "user", "assistant")
START, STOP = "<|im_start|>", "<|im_end|>"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def chat_ids(messages: Sequence[Mapping[str, str]], tokenizer: LanguageTokenizer) -> list[int]:
    """The ids of a conversation, up to where the assistant's next answer begins.

    Args:
        messages: what was said so far, each with a "role" of ROLES and its "content". If the first
            is not the system's, SYSTEM comes before it.
        tokenizer: SmolLM2's, which knows the markers.

    Returns:
        <|im_start|>role⏎content<|im_end|>⏎ for every message, and <|im_start|>assistant⏎.

    Raises:
        TypeError: if `messages` is a text; says what to write.
        ValueError: if there is no message, or one has another role, or no content; or if the
            tokenizer has no markers.
    """
    check_messages(messages)
    if not {START, STOP} <= tokenizer.special_tokens.keys():
        raise ValueError(f"{tokenizer} has no {START} and {STOP}: its model was not taught to chat")
    start, stop = tokenizer.special_tokens[START], tokenizer.special_tokens[STOP]
    conversation = [(message["role"], message["content"]) for message in messages]
    for role, content in conversation:
        if role not in ROLES:
            raise ValueError(f"role must be one of {ROLES}, got {role!r}")
        if not isinstance(content, str):
            raise ValueError(f"content must be a text, got {type(content).__name__}")
    if conversation[0][0] != "system":
        conversation.insert(0, ("system", SYSTEM))
    ids: list[int] = []
    for role, content in conversation:
        ids += [start, *tokenizer.encode(f"{role}\n{content}"), stop, *tokenizer.encode("\n")]
    return [*ids, start, *tokenizer.encode("assistant\n")]


def check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    """Stop unless these are messages, each with a role and a content.

    Raises:
        TypeError: if `messages` is a text; says what to write.
        ValueError: if there is none, or one has no role or no content.
    """
    if isinstance(messages, str):
        raise TypeError(
            f'expected a list of messages: [{{"role": "user", "content": {messages!r}}}]'
        )
    if not messages:
        raise ValueError("a conversation needs a message to answer, got none")
    for message in messages:
        whole = isinstance(message, Mapping) and {"role", "content"} <= message.keys()
        if not whole or message["content"] is None:
            raise ValueError(
                f'a message is {{"role": "user", "content": "…"}}, with both of these, got '
                f"{message!r}"
            )
