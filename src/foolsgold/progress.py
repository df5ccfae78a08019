"""Progress of the long stages: `with progress.stage("encode documents", total) as advance: advance(32)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

Advance = Callable[[int], None]


def no_steps(steps: int) -> None:
    """Report nothing, where an `Advance` is asked for."""
    del steps


class Progress(Protocol):
    """What a long stage reports to."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Open a stage of `total` steps; call the returned function with the steps just done."""
        ...


class Silent:
    """Reports nothing: the default of every function that can take long, and `--quiet`."""

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Do nothing."""
        del name, total

        def ignore(steps: int) -> None:
            del steps

        yield ignore


class Bars:
    """One bar a stage with its rate and the time left, on stderr, so that stdout keeps only results."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Advance]:
        """Show one bar until the stage ends; on a terminal it stays as a line with its elapsed time."""
        if total == 0:
            with SILENT.stage(name, total) as ignore:
                yield ignore
            return
        columns = (
            SpinnerColumn(finished_text="[green]done"),
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        with RichProgress(*columns, console=self._console, refresh_per_second=4) as bars:
            task = bars.add_task(name, total=total)
            yield lambda steps: bars.update(task, advance=steps)


class _Rate(ProgressColumn):
    """Steps a second, over the whole stage once it has finished."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.completed / task.elapsed:,.1f}/s" if task.elapsed else "")


SILENT: Progress = Silent()
