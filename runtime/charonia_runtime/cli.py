"""The command line: `charonia serve`, `charonia check`, and `tritonserver`, an alias of `charonia serve`."""

import os
import sys
from collections.abc import Callable, Sequence

from charonia_runtime import __version__, telemetry

_HELP = """\
Usage: charonia COMMAND [options]

Serves models over Triton's HTTP and gRPC protocols.

Commands:
  serve    load the models of a repository and serve them
  check    look for faults in a repository without serving it
  sync     copy a repository from a bucket to this machine, once or again and again

  charonia serve --model-repository=models        HTTP on 8000, gRPC on 8001, metrics on 8002
  charonia check models                           each fault with its file and field
  charonia sync s3://bucket/models models         only what is new, verified, switched at once

`charonia COMMAND --help` tells more; `charonia --version` prints the version. `tritonserver` is `charonia serve`.
"""


def main() -> None:
    """The `charonia` command."""
    telemetry.turn_off(os.environ)
    sys.exit(run(sys.argv[1:]))


def tritonserver() -> None:
    """The `tritonserver` command: `charonia serve`, with Triton's flags."""
    telemetry.turn_off(os.environ)
    sys.exit(_serve(sys.argv[1:], program="tritonserver"))


def run(arguments: Sequence[str]) -> int:
    """Run one command line. Returns the exit code."""
    command, *rest = arguments or ["--help"]
    if command in {"-h", "--help", "help"}:
        print(_HELP, end="")
        return 0
    if command in {"-V", "--version", "version"}:
        print(f"charonia {__version__}")
        return 0
    known = _COMMANDS.get(command) or _INNER_COMMANDS.get(command)
    if known is None:
        print(f"charonia: there is no command '{command}', only {', '.join(_COMMANDS)}", file=sys.stderr)
        return 2
    return known(rest)


def _serve(arguments: Sequence[str], program: str = "charonia serve") -> int:
    from charonia_runtime.flags import UsageError
    from charonia_runtime.options import parse_serve, serve_flags

    if any(argument in {"-h", "--help"} for argument in arguments):
        print(f"Usage: {program} --model-repository=DIRECTORY [options]\n{serve_flags().help()}")
        return 0
    try:
        options = parse_serve(arguments, os.environ)
    except UsageError as error:
        return _refuse(program, error)
    from charonia_runtime.serving import serve

    return serve(options)


def _check(arguments: Sequence[str]) -> int:
    from charonia_runtime.checking import check

    return check(arguments)


def _sync(arguments: Sequence[str]) -> int:
    from charonia_runtime.syncing import sync

    return sync(arguments)


def _front(arguments: Sequence[str]) -> int:
    from charonia_runtime.fronting import front

    return front(arguments)


def _try(arguments: Sequence[str]) -> int:
    from charonia_runtime.trial import run_trial

    return run_trial(arguments)


def _refuse(program: str, error: Exception) -> int:
    """Say what is wrong with the command line, in tritonserver's form."""
    flag, message = getattr(error, "flag", ""), str(error)
    if flag:
        text = f'Bad option: "--{flag}".\n{message}'
    elif message.startswith(("unrecognized option", "option '")):
        text = f"{program}: {message}"
    elif message.startswith("Unexpected argument"):
        text = message
    else:
        text = f"Error: {message}"
    print(f"{text}\n`{program} --help` lists every option.", file=sys.stderr)
    return 1


_INNER_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {"frontend": _front, "trial": _try}
"""What the other commands start processes with."""
_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {"serve": _serve, "check": _check, "sync": _sync}
