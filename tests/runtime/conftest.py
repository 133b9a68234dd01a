"""What tests of several packages share."""

from pathlib import Path

import pytest

from tests.support import real_models


@pytest.fixture(scope="session")
def real_model_files(request: pytest.FixtureRequest) -> dict[str, Path]:
    """Files of real ONNX models by name; downloaded when pytest's cache does not hold them yet."""
    cache = request.config.cache
    assert cache is not None
    return real_models.fetch(cache.mkdir("real-models"))
