"""A mined set as a dataset on the Hugging Face hub, with a card that says what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foolsgold.errors import MinedSetError
from foolsgold.exchange.card import card, without_place
from foolsgold.exchange.export import export
from foolsgold.exchange.formats import WRITERS
from foolsgold.mined.mined_set import MinedSet
from foolsgold.recipe.manifest import Manifest

# What of a manifest is for others: not its notes and places, which tell of the machine that mined.
_PUBLISHED = ("version", "created", "seed", "collection", "sources", "teacher", "counts", "recipe", "libraries")


@dataclass(frozen=True)
class Pushed:
    """Where a set is on the hub, how many rows were written, and what was left out."""

    url: str
    rows: int
    notes: tuple[str, ...]


def push_to_hub(
    mined: MinedSet | str | Path,
    repository: str,
    to: Any = "sentence-transformers",
    *,
    public: bool = False,
    licence: str | None = None,
    token: str | None = None,
    **options: Any,
) -> Pushed:
    """Upload an exported set: the rows in `data/`, the card, and what the manifest and the audit say.

    Args:
        mined: the set, its folder, or a folder of sets (its newest).
        repository: OWNER/NAME on the hub that `HF_ENDPOINT` names; made if it is not there, private unless `public`.
        to, options: as in `export`.
        licence: the hub's name of the licence of the texts; None leaves the field for its owner to fill in.
        token: of the hub; None for the one that `hf auth login` stored, or HF_TOKEN.

    Raises:
        MinedSetError: as `export`; the hub cannot be reached, or refuses.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    mined = mined if isinstance(mined, MinedSet) else MinedSet(mined)
    with TemporaryDirectory(prefix="foolsgold-") as name:
        folder = Path(name)
        data = folder / "data"
        suffix = WRITERS[to].suffix if to in WRITERS else ""
        written = export(mined, to, data / f"train{suffix}" if suffix else data, **options)
        (folder / "README.md").write_text(card(mined, to, written, licence), encoding="utf-8")
        for file, facts in (("manifest.json", published(mined.manifest)), ("audit.json", mined.audit().to_json())):
            (folder / file).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        api = HfApi(token=token, library_name="foolsgold")
        try:
            made = api.create_repo(repository, repo_type="dataset", private=not public, exist_ok=True)
            api.upload_folder(
                repo_id=made.repo_id,
                folder_path=folder,
                repo_type="dataset",
                commit_message=f"Mined set {mined.version}",
            )
        except (HfHubHTTPError, HFValidationError, OSError, ValueError) as problem:
            said = " ".join(str(problem).split())[:300]
            raise MinedSetError(
                f"{repository}: cannot be pushed to {api.endpoint} ({said}); is the name OWNER/NAME, and are you "
                "logged in (hf auth login) with a token that may write?"
            ) from None
    return Pushed(str(made), written.rows, written.notes)


def published(manifest: Manifest) -> dict[str, Any]:
    """A manifest for other eyes: absolute paths are cut to their last part; the recipe names no collection."""
    facts: dict[str, Any] = _without_places({name: manifest[name] for name in _PUBLISHED})
    facts["recipe"].pop("collection", None)
    return facts


def _without_places(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_places(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_places(inner) for inner in value]
    return without_place(value)
