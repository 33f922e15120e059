"""A conversation as SmolLM2 was taught to read it: each message between two markers.

The markers are tokens of their own. They enter as ids, and what the messages say as text, so no
message can end itself, or speak for somebody else, by spelling out a marker.
"""

from collections.abc import Mapping, Sequence

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
    if isinstance(messages, str):
        raise TypeError(
            f'expected a list of messages: [{{"role": "user", "content": {messages!r}}}]'
        )
    if not messages:
        raise ValueError("a conversation needs a message to answer, got none")
    if not {START, STOP} <= tokenizer.special_tokens.keys():
        raise ValueError(f"{tokenizer} has no {START} and {STOP}: its model was not taught to chat")
    start, stop = tokenizer.special_tokens[START], tokenizer.special_tokens[STOP]
    conversation = [_checked(message) for message in messages]
    if conversation[0][0] != "system":
        conversation.insert(0, ("system", SYSTEM))
    ids: list[int] = []
    for role, content in conversation:
        ids += [start, *tokenizer.encode(f"{role}\n{content}"), stop, *tokenizer.encode("\n")]
    return [*ids, start, *tokenizer.encode("assistant\n")]


def _checked(message: Mapping[str, str]) -> tuple[str, str]:
    """Role and content of a message that has both."""
    try:
        role, content = message["role"], message["content"]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f'a message is {{"role": "user", "content": "…"}}, with both of these, got {message!r}'
        ) from error
    if role not in ROLES:
        raise ValueError(f"role must be one of {ROLES}, got {role!r}")
    if not isinstance(content, str):
        raise ValueError(f"content must be a text, got {type(content).__name__}")
    return role, content
