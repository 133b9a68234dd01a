"""Settings of every run of the tests, and the frameworks that it had or could not test."""

import hypothesis
import pytest

from tests.support import frameworks

# A busy machine is no fault of the code under test.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


def pytest_report_header() -> str:
    return f"frameworks: {frameworks.installed()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = frameworks.missing()
    if missing:
        terminalreporter.write_line(
            f"Not tested, because not installed: {', '.join(missing)} (pip install -e '.[frameworks]')"
        )
