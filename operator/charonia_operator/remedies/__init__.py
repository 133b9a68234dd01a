"""
What to do about a failure, by its cause: words of the cluster, of pip or of a bucket, turned into a field of the spec.

One module for each kind of cause, each a list of `Rule`: `repository`, `packages`, `references` (Secrets, ConfigMaps
and claims), `placement` (scheduler, quotas, admission), `containers` and `scaling`. They read words and the spec, and
nothing of the cluster. What no rule knows gets the remedy of its reason (`reasons.TROUBLES`).
"""

from charonia_operator.reasons import Reason, remedy_of
from charonia_operator.remedies import containers, packages, placement, references, repository, scaling
from charonia_operator.remedies.rule import Rule
from charonia_operator.spec.service import InferenceServiceSpec

_RULES: tuple[Rule, ...] = (
    *references.RULES,
    *placement.RULES,
    *repository.RULES,
    *packages.RULES,
    *containers.RULES,
    *scaling.RULES,
)


def advice(service: InferenceServiceSpec, reason: str, message: str) -> tuple[str, str]:
    """Return the reason that fits these words best, and what to do: a sentence that names the field."""
    for rule in _RULES:
        found = rule.words.search(message) if reason in rule.reasons else None
        remedy = rule.remedy(service, found) if found else ""
        if remedy:
            better = rule.reason or reason
            return better, remedy
    return reason, remedy_of(reason)


def refused(service: InferenceServiceSpec, message: str) -> tuple[str, str]:
    """Return the reason and the text where the API server refuses an object: its words, and what to do."""
    reason, remedy = advice(service, Reason.FORBIDDEN, message)
    return reason, sentences(message, remedy)


def sentences(*texts: str) -> str:
    """Put texts one behind the other, each with a full stop."""
    return " ".join(text if text.endswith((".", ":")) else f"{text}." for each in texts if (text := each.strip()))
