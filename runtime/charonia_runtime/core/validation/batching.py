"""Rules of dynamic batching."""

from charonia_runtime.core.config import ModelConfig
from charonia_runtime.core.errors import InvalidArgumentError
from charonia_runtime.core.scheduling import DynamicBatching, QueuePolicy, TimeoutAction


def check_dynamic_batching(config: ModelConfig, batching: DynamicBatching) -> None:
    """Raises InvalidArgumentError for sizes, priority levels and orders that cannot be kept."""
    for size in batching.preferred_batch_sizes:
        if size <= 0:
            raise InvalidArgumentError(f"dynamic batching preferred size must be positive for {config.name}")
        if size > config.max_batch_size:
            raise InvalidArgumentError(f"dynamic batching preferred size must be <= max batch size for {config.name}")
    if batching.priority_levels:
        _check_priorities(config, batching)
    if batching.preserve_ordering:
        _check_order(config, batching)


def _check_priorities(config: ModelConfig, batching: DynamicBatching) -> None:
    accepted = f"[1, {batching.priority_levels}] for {config.name}"
    if not 1 <= batching.default_priority_level <= batching.priority_levels:
        raise InvalidArgumentError(f"default priority level must be in range {accepted}")
    for level in batching.priority_queue_policies:
        if not 1 <= level <= batching.priority_levels:
            raise InvalidArgumentError(f"priority queue policy must have priority level in range {accepted}")


def _check_order(config: ModelConfig, batching: DynamicBatching) -> None:
    """Requests that may overtake one another cannot be answered in order."""
    if batching.priority_levels > 1:
        raise InvalidArgumentError(
            f"Only one priority level is allowed when 'preserve_ordering' is true for {config.name}"
        )
    for policy in (batching.default_queue_policy, *batching.priority_queue_policies.values()):
        if _delays(policy):
            raise InvalidArgumentError(
                f"Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for {config.name}"
            )


def _delays(policy: QueuePolicy) -> bool:
    return policy.default_timeout_us != 0 and policy.timeout_action is TimeoutAction.DELAY
