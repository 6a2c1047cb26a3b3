"""What a run over many ranks has on disk, to go on from after a kill: the folder of its labels, with a manifest, a file
for each part of every checkpoint, and at the end the labels of each part. Files are written beside and renamed, all
ranks wait for each other, and the manifest comes last: so that it never names what is not there. The checkpoint before
the last is kept too, in case the last is torn.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tautcut.arrays import Array
from tautcut.errors import InputError
from tautcut.writing import naming, replacing, write_whole

if TYPE_CHECKING:
    from tautcut.kernels.ranks.world import World  # reading what a run has left needs no torch

MANIFEST = "manifest.json"
FORMAT = "tautcut labels"
NUMBER = 1
DONE = "done"

_STATE = "state"
_BLOCK = 1 << 24


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands: the stage that is done, numbers that all ranks share, and the arrays of this rank."""

    stage: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class Checkpoints:
    """The folder of a run's labels, seen from one rank; all ranks call its methods together."""

    def __init__(self, folder: Path, world: World, identity: Mapping[str, Any]) -> None:
        self._folder, self._world, self._identity = folder, world, dict(identity)
        self._kept: list[dict[str, Any]] = []  # entries of the manifest, the last first
        self._number = 0

    def begin(self, *, resume: bool) -> Checkpoint | None:
        """Make the folder, or find the last checkpoint in it that is whole; None where there is none."""
        told = b""
        if self._world.rank == 0:
            told = json.dumps(self._found(resume)).encode()
        entries = json.loads(self._world.announce(told if self._world.rank == 0 else None))
        if isinstance(entries, str):
            raise InputError(entries)
        for entry in entries:
            arrays = self._loaded(entry)
            is_whole = self._world.gather(np.array([float(arrays is not None)])).all()
            if is_whole and arrays is not None:
                self._kept, self._number = [entry], int(entry["number"])
                return Checkpoint(entry["stage"], entry["facts"], arrays)
        return None

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint; the run can go on from it once this returns."""
        self._number += 1
        own = self._path(self._number, self._world.rank)
        digest = self._world.together(lambda: _written(own, checkpoint.arrays))
        digests = self._world.gather(np.array([float(digest)])).ravel()
        entry = {
            "number": self._number, "stage": checkpoint.stage, "facts": dict(checkpoint.facts),
            "digests": [int(one) for one in digests],
        }  # fmt: skip
        self._kept = [entry, *self._kept[:1]]
        self._world.together(self._write_manifest)
        kept = {self._path(one["number"], self._world.rank) for one in self._kept}
        self._remove_all_but(kept)

    def finish(self, facts: Mapping[str, Any], *, goes_on: bool = False) -> None:
        """Say that the labels are there. What the run would have gone on from is removed, unless it `goes_on` when it
        is started again.
        """
        done = {"number": self._number, "stage": DONE, "facts": dict(facts), "digests": []}
        self._kept = [done, *(self._kept[:1] if goes_on else [])]
        self._world.together(self._write_manifest)
        if goes_on:
            return
        self._remove_all_but(set())
        self._world.barrier()
        if self._world.rank == 0:
            with suppress(OSError):
                (self._folder / _STATE).rmdir()

    def _found(self, resume: bool) -> list[dict[str, Any]] | str:
        """The checkpoints that the manifest names, or the sentence about why it cannot be."""
        folder = self._folder
        try:
            (folder / _STATE).mkdir(parents=True, exist_ok=True)
            content = read_manifest(folder)
        except InputError as error:
            return f"{error}"
        except OSError as error:
            return f"'{folder}' cannot be written: {error.strerror}. Choose another folder."
        if content is None:
            strangers = sorted(
                one.name for one in folder.iterdir() if not one.name.startswith((_STATE, ".", "labels-"))
            )
            return f"'{folder}' holds other files ({strangers[0]}, ...). Choose a new folder." if strangers else []
        if not resume:
            return in_use(folder, "Add --resume to go on")
        differences = [
            f"{name} was {content['run'].get(name)!r} and is {value!r} now"
            for name, value in self._identity.items()
            if content["run"].get(name) != value
        ]
        if differences:
            return (
                f"'{folder}' is of another run: {'; '.join(differences)}. Repeat it as it was, or choose a new folder."
            )
        entries = list(content["checkpoints"])
        return entries[1:] or entries if entries and entries[0]["stage"] == DONE else entries

    def _write_manifest(self) -> None:
        if self._world.rank == 0:
            content = {"format": FORMAT, "number": NUMBER, "run": self._identity, "checkpoints": self._kept}
            write_whole(self._folder / MANIFEST, json.dumps(content, indent=1))

    def _path(self, number: int, rank: int) -> Path:
        return self._folder / _STATE / f"part-{rank:05d}-{number:06d}.npz"

    def _loaded(self, entry: Mapping[str, Any]) -> dict[str, Array] | None:
        """The arrays of this rank, or None where they are torn."""
        if entry["stage"] == DONE:
            return {}
        path = self._path(int(entry["number"]), self._world.rank)
        try:
            if _digest(path) != entry["digests"][self._world.rank]:
                return None
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile, EOFError, KeyError, IndexError):
            return None

    def _remove_all_but(self, kept: set[Path]) -> None:
        """Remove this rank's files of older checkpoints."""
        for old in (self._folder / _STATE).glob(f"part-{self._world.rank:05d}-*.npz"):
            if old not in kept:
                with suppress(OSError):
                    old.unlink()


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a folder of labels, None where there is none."""
    path = folder / MANIFEST
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        is_ours = content["format"] == FORMAT and content["number"] == NUMBER
        is_whole = isinstance(content["run"], dict) and isinstance(content["checkpoints"], list)
    except (ValueError, KeyError, TypeError, RecursionError):
        is_ours = is_whole = False
    if not (is_ours and is_whole):
        raise InputError(f"'{path}' is not the manifest of a run's labels. Choose another folder.")
    return dict(content)


def _written(path: Path, arrays: Mapping[str, Array]) -> int:
    """Write the arrays to the file, whole or not at all; its digest."""
    with replacing(path) as part, naming(path), part.open("wb") as file:
        np.savez(file, **dict[str, Any](arrays))
    return _digest(path)


def _digest(path: Path) -> int:
    """A check sum of a file's bytes."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found


def in_use(folder: Path, how: str) -> str:
    """The sentence about a folder that a run is not to begin in, and how to go on in it."""
    return f"'{folder}' holds labels or the beginnings of them. {how}, or choose a new folder."


def is_finished(folder: Path) -> bool:
    """Whether the labels of a run are all there."""
    content = read_manifest(folder)
    return content is not None and any(one.get("stage") == DONE for one in content["checkpoints"])


def is_run_folder(path: Path) -> bool:
    """Whether a folder has the manifest of a run's labels."""
    return os.path.isfile(path / MANIFEST)
