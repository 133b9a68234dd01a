"""`Rule`: words that tell a cause, and what to do about it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from charonia_operator.reasons import Reason
from charonia_operator.spec.service import InferenceServiceSpec

Remedy: TypeAlias = Callable[[InferenceServiceSpec, "re.Match[str]"], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """Holds for failures of one of `reasons` whose message has `words`."""

    reasons: frozenset[str]
    words: "re.Pattern[str]"
    remedy: Remedy
    """Gives a sentence, or an empty text where the rule does not hold for this spec after all."""
    reason: Reason | None = None
    """The better reason, where there is one."""


def rule(reasons: set[Reason], words: str, remedy: str | Remedy, reason: Reason | None = None) -> Rule:
    """Make a rule. `words` is a pattern without regard to case; a text as remedy may use the names of its groups."""
    if isinstance(remedy, str):
        text = remedy
        return Rule(frozenset(reasons), re.compile(words, re.IGNORECASE), lambda _, found: _filled(text, found), reason)
    return Rule(frozenset(reasons), re.compile(words, re.IGNORECASE), remedy, reason)


def _filled(text: str, found: "re.Match[str]") -> str:
    return text.format(**found.groupdict())
