"""
Trials: one run of pytest that collects the tests once, and then has a child of its own for each mutant.

The tree is not touched. In the child the functions of the package get the mutant's code; where the mutant differs in
what runs at import, the child imports the package and the tests anew.
"""

import ast
import gc
import importlib.abc
import importlib.machinery
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, TextIO

import pytest

PACKAGE = "charonia_operator"
_MEMORY_BYTES = 4 << 30
_OPTIONS = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--no-header", "--tb=no", "-o", "timeout=60"]
_IDLE_FACTOR = 20.0
"""Seconds in which a child may wait, or be waiting for a processor, for each second of a processor that it may take."""

Lines = set[tuple[str, int]]
"""Of the package: path below it, and number."""


class Trials:
    """Given to the caller of `with_trials`, within the run of pytest."""

    def __init__(self, folder: Path, items: Sequence[pytest.Item]) -> None:
        self._folder = folder
        self._items = {item.nodeid: item for item in items}

    def lines(self) -> dict[str, tuple[float, Lines]]:
        """Of each test that passes the seconds of a processor, and the lines that it runs."""

        def run(pipe: TextIO) -> int:
            told = {}
            for item in self._items.values():
                lines: Lines = set()
                begun = time.process_time()
                with _Tracing(self._folder, lines):
                    passed = _passes(item)
                if passed:
                    told[item.nodeid] = (time.process_time() - begun, sorted(lines))
            json.dump(told, pipe)
            return 0

        result, told = _in_a_child(run, 900.0)
        if result:
            raise SystemExit(f"the tests cannot be run: {result}")
        found = json.loads(told).items()
        return {name: (seconds, {(path, line) for path, line in lines}) for name, (seconds, lines) in found}

    def verdict(self, module: str, tree: ast.Module, function: str, tests: Sequence[str], seconds: float) -> str:
        """
        How the first of these tests fails on a mutant of a module; empty where all pass.

        `function` is that around the change, empty where the change runs at import. A mutant may take so many seconds
        of a processor.
        """
        path = self._folder / module

        def run(_: TextIO) -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
            code = compile(tree, str(path), "exec")
            if not function:
                return _run_anew(_Mutation(_module_name(module), path, code), tests)
            if not _exchange(path, function, code):
                return 71
            return 0 if all(_passes(self._items[name]) for name in tests) else 1

        return _in_a_child(run, _IDLE_FACTOR * seconds)[0]


def with_trials(folder: Path, tests: Sequence[str], use: Callable[[Trials], int]) -> int:
    """Collect the tests below these paths, and return what `use` makes of them."""
    plugin = _Loop(folder, use)
    pytest.main([*_OPTIONS, *tests], plugins=[plugin])
    return plugin.result


class _Loop:
    """A plug-in of pytest that does something else with the tests than to run them."""

    def __init__(self, folder: Path, use: Callable[[Trials], int]) -> None:
        self._folder, self._use = folder, use
        self.result = 2

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        plugins = session.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        capture = plugins.getplugin("capturemanager")
        assert capture
        with capture.global_and_fixture_disabled():
            self.result = self._use(Trials(self._folder, session.items))
        return True


def _passes(item: pytest.Item) -> bool:
    """Run a test, with fixtures of its own: those of the session too."""
    reports: list[pytest.TestReport] = []
    reporter = _Reports(reports)
    item.config.pluginmanager.register(reporter)
    item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
    item.config.pluginmanager.unregister(reporter)
    return all(report.outcome == "passed" for report in reports)


class _Reports:
    def __init__(self, reports: list[pytest.TestReport]) -> None:
        self._reports = reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)


class _Tracing:
    """Notes the lines that are run within it."""

    def __init__(self, folder: Path, lines: Lines) -> None:
        self._folder, self._lines = f"{folder}{os.sep}", lines

    def __enter__(self) -> None:
        threading.settrace(self._calls)
        sys.settrace(self._calls)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _calls(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        return self._steps if frame.f_code.co_filename.startswith(self._folder) else None

    def _steps(self, frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line":
            self._lines.add((frame.f_code.co_filename.removeprefix(self._folder), frame.f_lineno))
        return self._steps


def _exchange(path: Path, function: str, module: CodeType) -> bool:
    """Give a function, whoever has imported it, the code that it has in another code of its module."""
    code = module
    for name in function.split("."):
        inner = [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name]
        if len(inner) != 1:
            return False
        code = inner[0]
    changed = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and (each.__code__.co_filename, each.__code__.co_qualname) == (str(path), function)
    ]
    for each in changed:
        each.__code__ = code
    return bool(changed)


def _run_anew(mutation: "_Mutation", tests: Sequence[str]) -> int:
    for name in list(sys.modules):
        if name.partition(".")[0] in {PACKAGE, "tests"}:
            del sys.modules[name]
    sys.meta_path.insert(0, mutation)
    return int(pytest.main([*_OPTIONS, "-x", *tests]))


class _Mutation(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module of the package its code."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        places = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(self._path), is_package=places is not None)
        spec.submodule_search_locations = places
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def _module_name(module: str) -> str:
    return ".".join([PACKAGE, *Path(module).with_suffix("").parts]).removesuffix(".__init__")


def _in_a_child(run: Callable[[TextIO], int], within_seconds: float) -> tuple[str, str]:
    """How it ended, empty for well, and what it wrote to the pipe."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _be_a_child(run, reading, writing)
    os.close(writing)
    timer = threading.Timer(within_seconds, os.killpg, (child, signal.SIGKILL))
    timer.start()
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    timer.join()
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}", told
    return {0: "", 1: "a test"}.get(os.WEXITSTATUS(status), f"exit code {os.WEXITSTATUS(status)}"), told


def _be_a_child(run: Callable[[TextIO], int], reading: int, writing: int) -> None:
    code = 70
    try:
        os.close(reading)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with os.fdopen(writing, "w") as pipe:
            code = run(pipe)
    finally:
        os._exit(code)
