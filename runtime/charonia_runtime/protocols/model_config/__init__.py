"""
Triton's model configurations: text and JSON ⇄ `core.config.ModelConfig`.

A configuration is read once (`parse_text` or `parse_json`), then passed through `complete` whenever somebody changed
one of its fields. Its `document` is what clients and Python models see, so nothing that was written is ever lost.
"""

from collections.abc import Mapping
from typing import Any

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.protocols.model_config import defaults, json_form, text_form
from charonia_runtime.protocols.model_config.document import printed
from charonia_runtime.protocols.model_config.reading import config_of
from charonia_runtime.protocols.model_config.writing import write_changes


def parse_text(text: bytes, path: str) -> ModelConfig:
    """
    The configuration in a `config.pbtxt`, with nothing filled in. `path` is named in errors.

    Raises InvalidArgumentError with Triton's text, followed by line, column and cause.
    """
    return config_of(text_form.parse(text, path))


def parse_json(text: str | bytes) -> ModelConfig:
    """
    The configuration in a load request's `config` parameter, with nothing filled in.

    Raises InvalidArgumentError with what Triton logs.
    """
    return config_of(json_form.parse(text))


def complete(config: ModelConfig) -> ModelConfig:
    """
    `config` with defaults filled in and a `document` that says what its fields say. Idempotent.

    Whatever the fields do not carry stays in the document as it was.
    """
    document = printed(config.document)
    write_changes(config_of(document), config, document)
    defaults.fill(document)
    return config_of(printed(document))


def render_text(config: ModelConfig) -> str:
    """A `config.pbtxt` that says what the configuration's document says; defaults that are empty go without saying."""
    return text_form.render(json_form.message_of(config.document))


def to_message(document: Mapping[str, Any]) -> Any:
    """The protobuf `ModelConfig` that a configuration's document describes."""
    return json_form.message_of(document)
