"""`config.pbtxt`: protobuf's text format, as Triton reads it."""

import re
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tritonclient.grpc import model_config_pb2

from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.protocols.model_config.document import Document, sparse_document
from charonia_runtime.protocols.model_config.hints import hint_of_text

_MINUS_WITH_SPACES = re.compile(
    r"""
      (?P<kept> " (?: \\. | [^"\\\n] )* "?    # strings, even unfinished ones, and comments are left alone
              | ' (?: \\. | [^'\\\n] )* '?
              | \# [^\n]* )
    | - (?P<space> \s+ ) (?= [0-9.in] )
    """,
    re.VERBOSE,
)


def _entry_list_messages() -> Any:
    """
    The `ModelConfig` class of messages that differ from the real ones in one point: maps are lists of entries.

    Both look the same in text and on the wire, but lists keep the order in which a file gives its parameters.
    """
    file = descriptor_pb2.FileDescriptorProto.FromString(model_config_pb2.DESCRIPTOR.serialized_pb)
    waiting = list(file.message_type)
    while waiting:
        message = waiting.pop()
        message.options.ClearField("map_entry")
        waiting.extend(message.nested_type)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelConfig"))


ENTRY_LIST_CONFIG = _entry_list_messages()


def parse(text: bytes, path: str) -> Document:
    """What `text` sets. Raises InvalidArgumentError naming `path`, line, column and cause."""
    decoded = text.decode(errors="surrogateescape")
    config = ENTRY_LIST_CONFIG()
    try:
        text_format.Parse(_MINUS_WITH_SPACES.sub(_minus_at_number, decoded), config)
    except text_format.ParseError as error:
        raise InvalidArgumentError(f"failed to read text proto from {path}: {_cause(error, decoded)}") from None
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"failed to read text proto from {path}: a string is not valid UTF-8") from None
    return sparse_document(config)


def render(message: Any) -> str:
    """A `ModelConfig` message as text, its fields in the order of their declaration."""
    return str(text_format.MessageToString(message, as_utf8=True, use_index_order=True))


def _minus_at_number(match: re.Match[str]) -> str:
    """`-  1` as `  -1`, which keeps every column; the library knows only the latter."""
    return match["kept"] or f"{match['space']}-"


def _cause(error: text_format.ParseError, text: str) -> str:
    """`<line>:<column>: <what was wrong>` and a likely correction, without the library's copy of the whole line."""
    line, column = error.GetLine(), error.GetColumn()
    if line is None:
        return str(error)
    cause = str(error).removeprefix(f"{line}:{column} : ")
    quoted = text.split("\n")[line - 1] if line <= text.count("\n") + 1 else ""
    cause = cause.removeprefix(f"'{quoted}': ").encode(errors="replace").decode()
    return f"{line}:{column}: {cause}{hint_of_text(cause, text, line, column)}"
