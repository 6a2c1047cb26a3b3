"""Files are there whole, or as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from tautcut.writing import write_whole


@pytest.mark.parametrize("content", ["after ≥\n", "after ≥\n".encode()])
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, content):
    path, write = tmp_path / "table.md", Path.write_bytes
    path.write_text("before")

    def torn(self, data):
        write(self, data[:2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", torn)
        with pytest.raises(OSError, match="No space"):
            write_whole(path, content)
    assert path.read_text() == "before"
    write_whole(path, content)
    assert path.read_bytes() == "after ≥\n".encode()
    assert list(tmp_path.iterdir()) == [path]
