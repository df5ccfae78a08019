"""The command line: its commands, and how errors are printed. Results go to stdout, everything else to stderr.

The commands import what they need when they run, so that `foolsgold --help` is quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import foolsgold
from foolsgold.commands.audit import audit
from foolsgold.commands.calibrate import calibrate
from foolsgold.commands.check import check
from foolsgold.commands.console import out
from foolsgold.commands.demo import demo
from foolsgold.commands.evaluate import evaluate
from foolsgold.commands.explain import diff, explain
from foolsgold.commands.export import export
from foolsgold.commands.import_ import import_
from foolsgold.commands.init import init
from foolsgold.commands.label import label
from foolsgold.commands.log import log
from foolsgold.commands.mine import mine
from foolsgold.commands.risk import risk
from foolsgold.commands.train import train
from foolsgold.errors import FoolsgoldError

_INTERRUPTED = 130


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        """The options; --help shows no <bool> behind those that take no value."""
        return _without_bool(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        """As a command's."""
        return _without_bool(super().get_params(ctx))


def _without_bool(options: Any) -> Any:
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Mine hard negatives for dense retrievers, remove the false negatives, and measure how good the rest are.",
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Print the version, or run a command."""
    if show:
        out.print(f"foolsgold {foolsgold.__version__}")
        raise typer.Exit


for _command in (
    demo, init, mine, explain, diff, audit, import_, export, risk, label, calibrate, check, train, evaluate, log,
):  # fmt: skip
    app.command(_command.__name__.rstrip("_"), cls=_Command)(_command)


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2, never a traceback."""
    try:
        code = app(standalone_mode=False)
    except FoolsgoldError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:  # `foolsgold ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # click's own errors: unknown option, missing argument
        if usage is None:
            raise
        if not usage():  # no command: the help has been printed
            sys.exit(2)
        command = getattr(getattr(error, "ctx", None), "command_path", "") or "foolsgold"
        _fail(f"{usage()} (see {command} --help)", 2)
    if code == _INTERRUPTED:  # typer makes this of a KeyboardInterrupt
        _fail(
            "interrupted; embeddings and teacher scores made so far are kept, and the same command resumes from them",
            _INTERRUPTED,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        print(f"error: {line}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
