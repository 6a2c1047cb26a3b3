"""Things: of each kind what is shown, what joins them, and what is kept for the next start."""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelling_samples import N_PICTURES, draw_pictures, things_of
from tautcut.errors import InputError
from tautcut.formats import pictures
from tautcut.labelling import things as room
from tautcut.labelling.things import Kept


def picture_in(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


# ---------------------------------------------------------------- kinds


def test_a_folder_of_pictures(tmp_path: Path) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    things = things_of(folder)
    assert (things.kind, things.title) == ("image", "pictures")
    assert things.names == [f"p{number}.png" for number in range(N_PICTURES)]  # p2 before p10
    content, kind = things.image(3)
    assert (content, kind) == ((folder / "p3.png").read_bytes(), "image/png")
    assert things.text(3) is None
    near = things.similar(3, 5, lambda one: True)
    assert len(near) == 5
    assert all(one % 2 == 1 for one in near)  # bright ones
    assert things.similar(3, 5, lambda one: one != near[0])[0] == near[1]


def test_pictures_of_an_array(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "digits.npy", rng.random((20, 5, 4)) * 16)
    things = things_of(tmp_path / "digits.npy")
    assert (things.kind, things.names[7]) == ("image", "7")
    content, kind = things.image(7)
    assert kind == "image/png"
    assert picture_in(content).size == (4, 5)


def test_rows_of_numbers(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = "\n".join(f"city {number},{rng.random():.3f},{rng.random():.3f}" for number in range(20))
    (tmp_path / "cities.csv").write_text(f"name,width,height\n{rows}\n")
    things = things_of(tmp_path / "cities.csv")
    assert (things.kind, things.names[4]) == ("numbers", "city 4")
    assert [column for column, _ in things.values(4) or []] == ["width", "height"]
    assert things.image(4) is None


def test_texts_of_a_table(tmp_path: Path) -> None:
    words = (
        "the cat sleeps on a sofa",
        "a dog barks at the garden gate",
        "cats and sofas are soft",
        "dogs love a gate",
    )
    rows = "\n".join(f"{number},{words[number % 4]} {number % 5},{number}" for number in range(20))
    (tmp_path / "notes.csv").write_text(f"id,note,length\n{rows}\n")
    things = things_of(tmp_path / "notes.csv")
    assert (things.kind, things.names[1]) == ("text", "1")
    assert things.text(1) == f"{words[1]} 1"
    assert "words in column 'note'" in " ".join(things.data.notes)
    assert all(one % 2 == 1 for one in things.similar(1, 4, lambda one: True))


def test_pictures_that_a_table_names(tmp_path: Path) -> None:
    draw_pictures(tmp_path / "pictures")
    (tmp_path / "outside").mkdir()
    outside = draw_pictures(tmp_path / "outside" / "more")
    (tmp_path / "pictures" / "link.png").symlink_to(outside / "p0.png")
    rows = [f"{number},pictures/p{number}.png,{'it' * (number % 3)}" for number in range(N_PICTURES)]
    rows += ["98,../outside/more/p0.png,", "99,pictures/none.png,", "100,/etc/passwd,"]
    table = tmp_path / "table" / "table.csv"
    table.parent.mkdir()
    (tmp_path / "pictures").rename(table.parent / "pictures")
    table.write_text("id,file,remark\n" + "\n".join(rows) + "\n")
    things = things_of(table, picture_column="file")
    assert things.kind == "image"
    assert things.image(2)[0] == (table.parent / "pictures" / "p2.png").read_bytes()  # type: ignore[index]
    assert things.values(2) == [["remark", "itit"]]
    assert things.vertices[-3:].tolist() == [-1, -1, -1]
    assert [things.text(one) for one in range(N_PICTURES, N_PICTURES + 3)] == ["not an image"] * 3
    assert things.image(N_PICTURES) is None
    table.write_text("id,file,remark\n" + "\n".join(rows[:N_PICTURES]) + "\n")
    assert things_of(table).kind == "image"  # by its content


def test_the_vertices_of_a_graph(tmp_path: Path) -> None:
    (tmp_path / "people.edges").write_text("Ann Bob\nBob Cyd\nCyd Ann\nCyd Dee\n")
    things = things_of(tmp_path / "people.edges")
    assert (things.kind, things.names) == ("name", ["Ann", "Bob", "Cyd", "Dee"])
    assert things.similar(3, 2, lambda one: True) == [2, 0]


def test_features_that_a_user_brings(tmp_path: Path) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    (folder / "p5.png").write_text("no picture, though it has features")
    rng = np.random.default_rng(0)
    np.save(tmp_path / "features.npy", rng.random((N_PICTURES, 3)))
    things = things_of(folder, features=tmp_path / "features.npy")
    assert things.graph.n_vertices == N_PICTURES
    assert things.data.content.shape == (N_PICTURES, 3)
    assert (things.has_image(4), things.has_image(5), things.text(5)) == (True, False, "not an image")
    np.save(tmp_path / "features.npy", rng.random((7, 3)))
    with pytest.raises(InputError, match="each of the 24 there are; it has 7"):
        things_of(folder, features=tmp_path / "features.npy")


def test_ids_that_repeat_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,y\n" + "".join(f"{n % 5},{n},{n * n % 7}\n" for n in range(20)))
    with pytest.raises(InputError, match=r"not distinct.*--id-column"):
        things_of(tmp_path / "a.csv")


# ---------------------------------------------------------------- marks


def test_a_thing_is_known_again_by_what_it_holds(tmp_path: Path) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    before = [things_of(folder).mark(one) for one in range(3)]
    assert len(set(before)) == 3
    assert [things_of(folder).mark(one) for one in range(3)] == before
    Image.new("L", (6, 6)).save(folder / "p1.png")
    after = things_of(folder)
    assert [after.mark(one) == before[one] for one in range(3)] == [True, False, True]


# ---------------------------------------------------------------- what is kept


def test_the_second_start_reads_no_picture_and_looks_for_no_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    (folder / "fake.png").write_text("x")
    first = things_of(folder)

    def never(*_: object) -> None:
        raise AssertionError("it was to be found, not made")

    monkeypatch.setattr(room, "bitmaps", never)
    monkeypatch.setattr("labelling_samples.knn_graph", never)
    second = things_of(folder)
    assert second.names == first.names
    assert second.vertices.tolist() == first.vertices.tolist()
    assert (second.graph.to_scipy() != first.graph.to_scipy()).nnz == 0


@pytest.mark.parametrize("change", ["content", "added", "settings"])
def test_what_was_made_of_something_else_is_made_again(tmp_path: Path, change: str) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    first = things_of(folder)
    if change == "content":
        Image.new("L", (6, 6), 255).save(folder / "p0.png")
        os.utime(folder / "p0.png", ns=(1, 1))
    elif change == "added":
        Image.new("L", (6, 6), 255).save(folder / "p99.png")
    second = things_of(folder, n_neighbors=5 if change == "settings" else 4)
    same = second.graph.n_vertices == first.graph.n_vertices
    assert not (same and (second.graph.to_scipy() != first.graph.to_scipy()).nnz == 0)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 torn", None])
def test_what_was_kept_badly_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    first = things_of(folder)
    for path in tmp_path.glob(".pictures.*"):
        path.write_bytes(path.read_bytes()[:-40] if damage is None else damage)
    assert (things_of(folder).graph.to_scipy() != first.graph.to_scipy()).nnz == 0


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "data.csv")
    with kept.path("graph").open("wb") as file:
        np.savez(file, key=np.array("k"), weights=np.array([{"evil": 1}], dtype=object))
    assert kept.get("graph", "k") is None


def test_a_folder_that_cannot_be_written_works_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = draw_pictures(tmp_path / "pictures")

    def refuse(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(room, "write_whole", refuse)
    things = things_of(folder)
    assert things.graph.n_vertices == N_PICTURES
    assert "Nothing is kept for the next start" in str(things.kept.problem)


# ---------------------------------------------------------------- pictures


def test_pictures_are_compared_by_the_pixels_that_suit_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def shape_of(name: str, make: object) -> tuple[int, ...]:
        folder = tmp_path / name
        folder.mkdir()
        for number in range(6):
            make(number).save(folder / f"{number}.png")  # type: ignore[operator]
        return pictures.bitmaps(list(pictures.pictures_in(folder).values())).shape

    grey = lambda w, h: Image.fromarray(rng.integers(0, 255, (h, w), dtype=np.uint8))  # noqa: E731
    colour = lambda w, h: Image.fromarray(rng.integers(0, 255, (h, w, 3), dtype=np.uint8))  # noqa: E731
    assert shape_of("small", lambda n: grey(9, 7)) == (7, 9)
    assert shape_of("large", lambda n: grey(90, 70)) == (32, 32)
    assert shape_of("mixed", lambda n: grey(9 + n, 7)) == (32, 32)
    assert shape_of("coloured", lambda n: colour(90, 70)) == (16, 16, 3)
    assert shape_of("small and coloured", lambda n: colour(9, 7)) == (7, 9, 3)
    assert shape_of("grey as colour", lambda n: grey(9, 7).convert("RGB")) == (7, 9)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_pictures_of_every_mode(tmp_path: Path, mode: str) -> None:
    if mode in ("I;16", "I"):
        image = Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16 if mode == "I;16" else np.int32))
    else:
        image = Image.new("RGB", (8, 8), (200, 100, 50)).convert(mode)
    path = tmp_path / ("a.tif" if mode in ("CMYK", "F", "I") else "a.png")
    image.save(path)
    found = pictures.bitmaps([path])
    assert found.is_picture.all()
    assert pictures.shown(path) is not None


def test_a_picture_too_large_to_unpack_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("1", (400, 400)).save(tmp_path / "a.png")
    Image.new("L", (8, 8)).save(tmp_path / "b.png")
    monkeypatch.setattr(pictures, "_MOST_PIXELS", 100_000)
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    assert pictures.bitmaps(paths).is_picture.tolist() == [False, True]
    assert pictures.shown(paths[0]) is None
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pictures.bitmaps(paths).is_picture.tolist() == [False, True]


def test_transparent_is_white_and_photographs_stand_upright(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert pictures.bitmaps([tmp_path / "clear.png"]).values.min() == 255
    turned = Image.fromarray(np.repeat(np.array([[0], [255]], dtype=np.uint8), 16, axis=1).repeat(8, axis=0))
    exif = turned.getexif()
    exif[0x0112] = 3  # upside down
    turned.save(tmp_path / "turned.jpg", exif=exif)
    values = pictures.bitmaps([tmp_path / "turned.jpg"]).values.reshape(16, 16)
    assert values[:8].mean() > 200 > 50 > values[8:].mean()


@pytest.mark.parametrize("suffix", [".bmp", ".tif", ".ppm", ".webp", ".gif", ".jpg"])
def test_what_a_browser_does_not_show_is_made_into_what_it_does(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    Image.new("RGB", (10, 12), (9, 99, 199)).save(path)
    content, kind = pictures.shown(path)  # type: ignore[misc]
    assert kind in ("image/png", "image/jpeg", "image/gif", "image/webp")
    assert picture_in(content).size == (10, 12)


def test_large_files_are_shown_smaller(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 255, (1500, 1200, 3), dtype=np.uint8)).save(tmp_path / "a.jpg", quality=95)
    content, kind = pictures.shown(tmp_path / "a.jpg")  # type: ignore[misc]
    assert kind == "image/jpeg"
    assert max(picture_in(content).size) == 1024


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"<svg xmlns='a'/>", b"%!PS-Adobe-3.0 EPSF-3.0\n"]
)
def test_what_only_begins_like_a_picture_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    assert pictures.shown(path) is None
    assert not pictures.bitmaps([path, None]).is_picture.any()


def test_pictures_that_are_cut_short_are_left_out(tmp_path: Path) -> None:
    folder = draw_pictures(tmp_path / "pictures")
    whole = (folder / "p0.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    things = things_of(folder)
    assert things.vertices[things.names.index("cut.png")] == -1
    assert "not pictures: 'cut.png'" in " ".join(things.data.notes)


def test_only_what_lies_in_the_folder_is_listed_in_the_order_of_numbers(tmp_path: Path) -> None:
    outside = draw_pictures(tmp_path / "outside", 3)
    folder = draw_pictures(tmp_path / "pictures", 2)
    (folder / "sub").mkdir()
    (folder / "sub" / "p10.PNG").write_bytes((folder / "p0.png").read_bytes())
    (folder / "sub" / "p9.png").write_bytes((folder / "p0.png").read_bytes())
    (folder / ".hidden.png").write_bytes((folder / "p0.png").read_bytes())
    (folder / "folder.png").mkdir()
    (folder / "there").symlink_to(outside)
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "out.png").symlink_to(outside / "p0.png")
    (folder / "again.png").symlink_to(folder / "p0.png")
    os.mkfifo(folder / "pipe.png")
    (folder / "notes.txt").write_text("no picture")
    found = pictures.pictures_in(folder)
    assert list(found) == ["again.png", "p0.png", "p1.png", "sub/p9.png", "sub/p10.PNG"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is a folder without pictures"):
        things_of(tmp_path / "empty")


def test_names_that_are_no_text_are_written_with_escapes(tmp_path: Path) -> None:
    folder = draw_pictures(tmp_path / "pictures", 2)
    (folder / os.fsdecode(b"caf\xe9.png")).write_bytes((folder / "p0.png").read_bytes())
    (folder / " =blank\n.png").write_bytes((folder / "p0.png").read_bytes())
    found = list(pictures.pictures_in(folder))
    assert "caf\\xe9.png" in found
    "".join(found).encode()


@pytest.mark.parametrize(
    "name", ["../a.png", "/etc/passwd", "a\0.png", "", ".", "x/../../a.png", "~/a.png", "a" * 5000]
)
def test_no_name_leads_out_of_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    assert pictures.inside(tmp_path / "folder", name) is None
