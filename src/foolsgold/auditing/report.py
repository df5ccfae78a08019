"""The report: one page that needs nothing but itself, and its plots as pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from markupsafe import Markup

from foolsgold.auditing import plots
from foolsgold.auditing.composition import BANDS
from foolsgold.auditing.examples import look
from foolsgold.auditing.figures import as_png, as_svg
from foolsgold.auditing.margins import Scores, in_unit
from foolsgold.auditing.metrics import Audit
from foolsgold.auditing.page import environment
from foolsgold.auditing.subject import Subject
from foolsgold.errors import MinedSetError
from foolsgold.recipe.manifest import Manifest


def write_report(mined: Subject, audit: Audit, path: Path) -> None:
    """Write the page to `path`, and margins.png and ranks.png beside it.

    It says nothing of when, where or how fast the set was mined, so that the same set gives the same bytes.

    Raises:
        MinedSetError: the folder cannot be written to, or the set's tables cannot be read.
    """
    page, pictures = render(mined, audit)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, picture in pictures.items():
            (path.parent / f"{name}.png").write_bytes(picture)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise MinedSetError(f"{path}: the report cannot be written here ({error}); name another file") from None


def render(mined: Subject, audit: Audit) -> tuple[str, dict[str, bytes]]:
    """The page, and the plots as PNG by name."""
    manifest, evidence = mined.manifest, look(mined)
    sources = list(manifest.sources)
    scale = manifest.teacher.scale if manifest.teacher else None
    figures = {}
    if scale is not None and audit.margins is not None:
        scores = Scores.of(mined.negatives, scale)
        limit = manifest.recipe.audit.min_mean_margin
        figures["margins"] = plots.margins_by_source(scores, sources, limit)
        zones = mined.limits.on_teacher
        shown = in_unit(np.array(list(zones.values()), dtype=np.float32), scale)
        thresholds = dict(zip(zones, shown.tolist(), strict=True))
        figures["ranks"] = plots.scores_by_rank(evidence.ranks, scores.scale, thresholds)
    page = environment(Path(__file__).parent).get_template("report.html.jinja").render(
        version=mined.version,
        manifest=manifest,
        audit=audit,
        evidence=evidence,
        bands=BANDS,
        funnel=_funnel(manifest),
        scale=scale,
        recipe=yaml.safe_dump(
            {name: value for name, value in manifest.recipe_values.items() if name != "collection"},
            sort_keys=False, allow_unicode=True,
        ),
        # matplotlib escapes what it writes into an SVG
        plots={name: Markup(as_svg(figure, name)) for name, figure in figures.items()},
    )  # fmt: skip
    return page, {name: as_png(figure) for name, figure in figures.items()}


def _funnel(manifest: Manifest) -> list[tuple[int, str, int, str]]:
    """(depth, name, number, kind) of each step from the candidates to the selected negatives."""
    counts = manifest.counts
    steps = [(0, "candidates", counts.candidates, "all"), (1, "excluded", counts.excluded, "excluded")]
    for zone in ("excluded", "negative", "ambiguous", "false_negative", "unscored"):
        if zone != "excluded" and counts[zone]:
            steps.append((1, zone.replace("_", " "), counts[zone], zone))
        reasons = sorted(counts.reasons.get(zone, {}).items(), key=lambda item: (-item[1], item[0]))
        if zone == "excluded" or len(reasons) > 1:
            steps += [(2, reason.replace("_", " "), number, zone) for reason, number in reasons]
    steps.append((0, "selected", counts.selected, "selected"))
    steps += [(1, f"from {source}", number, "selected") for source, number in counts.selected_by.items()]
    return steps
