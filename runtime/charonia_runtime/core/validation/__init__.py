"""
Whether a configuration makes sense, in Triton's words and in its order: the first mistake is the one that is told.

`validate_config` runs when a repository is polled (clients then only learn that polling failed), `validate_tensors`,
`validate_states` and `refuse_unsupported` when a version is loaded (clients get the text).

Belongs here: rules that need the configuration alone. Does not: what needs files (labels, warm-up data, batching
libraries), other models (ensembles' steps), GPUs (`core.instances`) or a backend's own mind.
Rules about what was written, rather than what it means, read the configuration's document.
"""

from charonia_runtime.core.validation.configuration import validate_config
from charonia_runtime.core.validation.states import validate_states
from charonia_runtime.core.validation.support import refuse_unsupported
from charonia_runtime.core.validation.tensors import validate_optional_inputs, validate_tensors

__all__ = ["refuse_unsupported", "validate_config", "validate_optional_inputs", "validate_states", "validate_tensors"]
