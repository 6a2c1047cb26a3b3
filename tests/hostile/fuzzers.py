"""The fuzzers by name, and sandboxes for them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from hostile.sandbox import Sandbox

FUZZERS = {"cli": "hostile.fuzz_cli", "readers": "hostile.fuzz_readers", "estimators": "hostile.fuzz_estimators"}


def sandbox_of(fuzzer: str, *, kept: Path | None = None) -> Sandbox:
    module = FUZZERS[fuzzer]
    return Sandbox(fuzzer, f"{module}:examine", import_module(module).LIMITS, kept=kept)
