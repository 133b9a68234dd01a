"""Which sequence a tensor belongs to, as responses tell it by parameters."""

from collections.abc import Iterable, Mapping

from charonia_runtime.core.request import InferenceResponse, ParameterValue, SequenceId

_NO_SEQUENCE: Mapping[str, ParameterValue] = {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
_SEQUENCE_PARAMETERS = _NO_SEQUENCE.keys()


def sequence_of(response: InferenceResponse) -> SequenceId | None:
    """The sequence that a model puts its response into by parameters; None where it does not."""
    given = response.parameters
    if not given or not _SEQUENCE_PARAMETERS & given.keys():
        return None
    identity = given.get("sequence_id", 0)
    return SequenceId(
        identity if isinstance(identity, int | str) else 0,
        start=given.get("sequence_start") is True,
        end=given.get("sequence_end") is True,
    )


def sequence_parameters(found: Iterable[SequenceId | None], own: SequenceId | None) -> Mapping[str, ParameterValue]:
    """What an answer says of the sequences `found` at its outputs: the last one, or the request's own."""
    sequence = own
    for one in found:
        sequence = one or sequence
    if sequence is None:
        return _NO_SEQUENCE
    return {
        "sequence_id": sequence.correlation_id,
        "sequence_start": sequence.start,
        "sequence_end": sequence.end,
    }
