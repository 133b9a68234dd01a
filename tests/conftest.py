"""What every run of the tests says: which frameworks it had, and which ones it could not test."""

import pytest

from tests.support import frameworks


def pytest_report_header() -> str:
    return f"frameworks: {frameworks.installed()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = frameworks.missing()
    if missing:
        terminalreporter.write_line(
            f"Not tested, because not installed: {', '.join(missing)} (pip install -e '.[frameworks]')"
        )
