"""Turn a list of messages with roles into one text of turns: `user: ...`, then `assistant: ...` on a new line."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

Turn: TypeAlias = tuple[str, str]  # who says it, and what
USUAL_ROLES = ("user", "assistant", "system", "developer", "tool")
ROLES = {role: role for role in USUAL_ROLES} | {
    "human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant", "ai": "assistant",
    "model": "assistant", "function_call": "assistant", "function": "tool", "observation": "tool",
}  # fmt: skip
ROLE_KEYS = ("role", "from", "author", "sender", "speaker", "user", "participant", "type")
CONTENT_KEYS = ("content", "value", "text", "body", "parts", "utterance")
INSIDE = ("messages", "conversation", "conversations", "input", "choices", "generations", "output")
WRITTEN = re.compile(r"""\s*[\[{].{0,300}?["'](role|from|author|sender|speaker|user|type|message)["']\s*:""", re.DOTALL)
CHATS = re.compile(
    r"(.*[_ .])?(messages?|conversations?|turns?|dialog(ue)?s?|chats?|utterances?|transcripts?|history)", re.IGNORECASE
)  # columns whose messages may have any names as roles
COLUMN = "conversation"  # the name of a column of conversations
PROMPT = re.compile(r"(inputs?|prompt|request)(\..+)?")  # columns of a tool that traces a model
REPLY = re.compile(r"(outputs?|completion|response)(\..+)?")
ONLY_MESSAGES = re.compile(r"re(quest|sponse)\b")  # columns in which sentences are not taken for messages
TRANSCRIPT = re.compile(rf"({'|'.join(USUAL_ROLES)}): ")
SAMPLE, SENTENCE_WORDS = 50, 3  # cells that are looked at; mean number of words of a sentence
MOST_DEPTH, MOST_CHARACTERS = 4, 10**6  # of objects around messages; of a list that Python has written
ROLE_CHARACTERS = 60


def conversation(cell: Any) -> str:
    """Return a conversation as one text. Return "" for any other cell.

    cell: a list of messages, an object that holds one, or either of them as JSON or as Python writes it.
    """
    if isinstance(cell, str) and not WRITTEN.match(cell):
        return ""
    return joined_turns(turns_of(read(cell)))


def joined_turns(turns: Iterable[Turn]) -> str:
    """Join the turns of a conversation, each with its role."""
    return "\n".join(f"{role}: {words}" for role, words in turns)


def read(cell: Any) -> Any:
    """Parse a cell that is written like a list or an object of messages. Return any other cell as it is."""
    if not isinstance(cell, str) or not WRITTEN.match(cell):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        pass
    try:  # NumPy writes no commas between the messages
        return ast.literal_eval(re.sub(r"\}[^\S\n]*\n\s*\{", "}, {", cell[:MOST_CHARACTERS].strip()))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return cell


def is_conversation(value: Any, any_roles: bool = True) -> bool:
    """Tell whether a value is a conversation. any_roles: the roles may also be names of persons."""
    turns = turns_of(value)
    return bool(turns) and (any_roles or any(role in USUAL_ROLES for role, _ in turns))


def is_message(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a single message with a usual role."""
    if value.keys().isdisjoint(("message", "kwargs", *ROLE_KEYS)):
        return False
    turn = _turn(value)
    return turn is not None and turn[0] in USUAL_ROLES


def turns_of(value: Any, depth: int = 1) -> list[Turn]:
    """Return the turns of a conversation, [] if a value is not one."""
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        speaking = (  # not a root without a message, or the reasoning of a model
            each
            for each in value
            if not isinstance(each, Mapping)
            or (each.get("message", "") is not None and each.get("type") != "reasoning")
        )
        turns = [*map(_turn, speaking)]
        return [turn for turn in turns if turn and turn[1]] if all(turns) else []
    if not isinstance(value, Mapping) or depth > MOST_DEPTH:
        return []
    if isinstance(nodes := value.get("mapping"), Mapping):
        return turns_of(_branch(nodes, value.get("current_node")))
    inner = [turn for key in INSIDE for turn in turns_of(value.get(key), depth + 1)]
    return inner or [turn for turn in [_turn(value)] if turn and turn[0] in USUAL_ROLES]


def _branch(nodes: Mapping[str, Any], last: Any) -> list[Any]:
    """Return the nodes of an export of ChatGPT from the first to the last one of the branch that was shown."""
    if last not in nodes:
        last = next((name for name, node in reversed([*nodes.items()]) if not node.get("children")), None)
    branch = list[Any]()
    while last in nodes and len(branch) < len(nodes):
        branch.append(nodes[last])
        last = nodes[last].get("parent")
    return branch[::-1]


def _turn(message: Any) -> Turn | None:
    """Return a message with its role, or None if a value is not a message."""
    if isinstance(message, Mapping) and isinstance(message.get("message"), Mapping):
        message = message["message"]
    if not isinstance(message, Mapping):
        return None
    match message:  # LangChain wraps its messages
        case {"id": [*_, str(kind)], "kwargs": Mapping() as inner}:
            message = {"role": kind.removesuffix("Message"), **inner}
        case {"type": str(kind), "data": Mapping() as inner}:
            message = {"role": kind, **inner}
    role = next(filter(None, (_role(key, message.get(key)) for key in ROLE_KEYS)), None)
    texts = [*(_words(message[key]) for key in CONTENT_KEYS if key in message)][:1]
    calls = message.get("tool_calls") or [message[key] for key in ("function_call",) if message.get(key)]
    texts += map(_call, calls if isinstance(calls, list) else [])
    if message.get("type") == "function_call":
        texts.append(_call(message))
    if role is None or not texts:
        return None
    name = message.get("name")
    return f"{role} {name}" if role == "tool" and name else role, "\n".join(filter(None, texts))


def _role(key: str, value: Any) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("role") or value.get("name")
    word = value.strip() if isinstance(value, str) else ""
    if usual := ROLES.get(word.casefold()):
        return usual
    return word if key != "type" and len(word.splitlines()) == 1 and len(word) <= ROLE_CHARACTERS else None


def _words(content: Any) -> str:
    """Return the words of a message, which may consist of parts."""
    match content:
        case None:
            return ""
        case str():
            return content
        case list() | tuple():
            return "\n".join(filter(None, map(_words, content)))
        case {"type": "tool_use"}:
            return _call(content)
        case {"text": inner} | {"parts": inner} | {"content": inner} | {"value": inner}:
            return _words(inner)
        case {"type": str(kind)} | {"content_type": str(kind)}:
            return f"[{kind}]"
    return json.dumps(content, ensure_ascii=False, default=str)


def _call(call: Any) -> str:
    """Return the call of a tool with its name."""
    function = call.get("function", call) if isinstance(call, Mapping) else call
    if not isinstance(function, Mapping):
        return f"[calls {call}]"
    arguments = next((function[key] for key in ("arguments", "args", "input") if key in function), "")
    words = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return f"[calls {function.get('name')}({words})]"


def prompt_and_reply(words: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Return the columns of the prompts and of the replies of a model, if a table {column: words} has one of each. A
    reply that repeats few words is a label."""
    prompt, reply = _side(PROMPT, words), _side(REPLY, words)
    if not (prompt and reply) or (len({*words[reply]}) <= len(words[reply]) / 2 and not _are_turns(words[prompt])):
        return None
    return prompt, reply


def _side(pattern: re.Pattern[str], words: Mapping[str, Sequence[str]]) -> str | None:
    """Return the one column of messages with roles whose name fits the pattern, else the one column of sentences."""
    fitting = {column: cells[:SAMPLE] for column, cells in words.items() if pattern.fullmatch(column.casefold())}
    columns = [column for column, cells in fitting.items() if _are_turns(cells)]
    columns = columns or [
        column
        for column, cells in fitting.items()
        if all(cells)
        and sum(len(cell.split()) for cell in cells) >= SENTENCE_WORDS * len(cells)
        and not ONLY_MESSAGES.match(column)
    ]
    return columns[0] if len(columns) == 1 else None


def _are_turns(cells: Sequence[str]) -> bool:
    turns = [cell for cell in cells[:SAMPLE] if TRANSCRIPT.match(cell) or conversation(cell)]
    return 2 * len(turns) > len(cells[:SAMPLE])


def joined(prompt: Any, reply: Any) -> str:
    """Join a prompt and its reply to a conversation. A reply may repeat its prompt."""
    before, after = _turns_or_words(prompt, "user"), _turns_or_words(reply, "assistant")
    return joined_turns(after if after[: len(before)] == before else before + after)


def _turns_or_words(cell: Any, role: str) -> list[Turn]:
    """Return the turns of a cell. A cell without roles is a turn of this role."""
    value = read(cell)
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if turns := turns_of(value):
        return turns
    texts = [*value.values()] if isinstance(value, Mapping) else [value]
    text = texts[0] if len(texts) == 1 and isinstance(texts[0], str) else json.dumps(value, default=str)
    return [(role, text)] if text.strip() else []
