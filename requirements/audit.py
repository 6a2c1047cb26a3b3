"""What is known against the packages of requirements/ci.txt, and under which licences they come: `make audit`. It asks
pip-audit and pip-licenses, writes docs/licences.md, and passes only if every package was looked up and none is known
to be vulnerable.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK, LICENCES = ROOT / "requirements" / "ci.txt", ROOT / "docs" / "licences.md"
SOUND, VULNERABLE, UNKNOWN = 0, 1, 2


def main(python: str) -> int:
    """List the licences of what is installed beside `python`, then look up what is locked."""
    locked = set(re.findall(r"^([\w.-]+)(?:\[.*\])?==", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE))
    found = _asked("pip-licenses", f"--python={python}", "--from=mixed", "--format=json", "--packages", *sorted(locked))
    LICENCES.write_text(_page(json.loads(found.stdout)), encoding="utf-8")
    _say(f"{LICENCES.relative_to(ROOT)} lists {len(json.loads(found.stdout))} licences.")
    answer = _asked("pip-audit", "--requirement", str(LOCK), "--disable-pip", "--require-hashes", "--format=json")
    try:
        packages = json.loads(answer.stdout)["dependencies"]
    except ValueError:
        reason = (answer.stderr.strip().splitlines() or ["it said nothing"])[-1]
        _say(f"Nothing was audited: pip-audit could not reach its database ({reason[:200]}). Try again where it can.")
        return UNKNOWN
    return _judged(packages)


def _asked(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(Path(sys.executable).with_name(tool)), *arguments], capture_output=True, text=True)


def _judged(packages: list[dict[str, object]]) -> int:
    """The exit code, after what is to be said."""
    skipped = [one for one in packages if "skip_reason" in one]
    vulnerable = [one for one in packages if one.get("vulns")]
    for one in vulnerable:
        known = one["vulns"]
        assert isinstance(known, list)
        names = ", ".join(
            f"{entry['id']} (mended in {' or '.join(entry['fix_versions']) or 'no version'})" for entry in known
        )
        _say(f"{one['name']} {one['version']}: {names}")
    n_audited = len(packages) - len(skipped)
    _say(f"{n_audited} of {len(packages)} locked packages were audited, {len(vulnerable)} are vulnerable.")
    if skipped:
        first = skipped[0]["name"]
        _say(f"pip-audit's database says nothing of the others, {first} first. Try again where it is within reach.")
    return VULNERABLE if vulnerable else UNKNOWN if skipped else SOUND


def _page(licences: list[dict[str, str]]) -> str:
    rows = sorted((one["Name"], one["Version"], _in_a_line(one["License"])) for one in licences)
    about = (
        "Of the packages that continuous integration installs from `requirements/ci.txt`, as they name them "
        "themselves. Written by `make audit`, not by hand; tautcut's own is BSD-3-Clause."
    )
    table = "".join(f"| {name} | {version} | {licence} |\n" for name, version, licence in rows)
    return f"# Licences\n\n{about}\n\n| package | version | licence |\n|---|---|---|\n{table}"


def _in_a_line(licence: str) -> str:
    """The name of a licence; some packages give its whole text, of which the first words have to do."""
    first = next((line.strip() for line in licence.splitlines() if line.strip()), "not named")
    return first.replace("|", "/")[:60]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
