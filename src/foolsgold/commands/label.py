"""`foolsgold label`: a person says of some candidates whether they are relevant."""

from __future__ import annotations

import secrets
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from foolsgold.commands.console import err, out, print_json
from foolsgold.commands.options import Json
from foolsgold.errors import FoolsgoldError, MissingExtra


def label(
    path: Annotated[Path, typer.Argument(metavar="SET", help="A mined set, or a folder of sets (its newest).")],
    n: Annotated[
        int, typer.Option("--n", min=1, help="Pairs to label; a larger number later keeps the first ones.")
    ] = 100,
    answers_file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Answers, as jsonl; labels.jsonl in the set if not given."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the choice of pairs (default: the set's own).")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="Print the chosen pairs and serve nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Label the most informative pairs, one per screen, with the keys 1, 2 and 3; resumes where you stopped.

    Example: `foolsgold label mined/ --n 100`
    """
    from foolsgold.label.answers import Answers
    from foolsgold.label.choose import choose
    from foolsgold.label.session import Session
    from foolsgold.mined.mined_set import MinedSet

    mined = MinedSet(path)
    pairs = choose(mined, n, seed)
    if only_list:
        if as_json:
            print_json({"pairs": [pair.to_json() for pair in pairs]})
            return
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("query", "document", "teacher score", "source", "stratum"):
            table.add_column(name, overflow="fold")
        for pair in pairs:
            score = "" if pair.teacher_score is None else f"{pair.teacher_score:.4g}"
            table.add_row(*(Text(text) for text in (pair.query_id, pair.doc_id, score, pair.source, pair.stratum)))
        out.print(table)
        return
    try:
        from foolsgold.label.server import application, listen, serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise MissingExtra("label", "the labelling page") from None

    answers = Answers(answers_file or mined.path / "labels.jsonl")
    session = Session(mined, pairs, answers)
    try:
        listener = listen(port)
    except OSError as error:
        raise FoolsgoldError(f"--port {port}: {error.strerror}; leave it out to take a free one") from None
    token, port = secrets.token_urlsafe(32), listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/?token={token}"
    if as_json:
        print_json({"url": url, "answers": str(answers.path)})
    else:
        out.print(
            f"{len(pairs)} pairs to label, {session.done} of them done; answers go to {answers.path}", markup=False
        )
        out.print(f"open {url} (Ctrl-C ends)", markup=False, soft_wrap=True)
    out.file.flush()
    if not (no_open or as_json):
        # a thread: a browser in the terminal does not return before it has been answered
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
    with suppress(KeyboardInterrupt):  # how a session ends
        serve(application(session, token, port), listener)
    err.print(f"{session.done} of {len(pairs)} labelled, in {answers.path}", markup=False, soft_wrap=True)
