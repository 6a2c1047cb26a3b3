"""The page's addresses: what each answers, and that nobody gets in but the person at this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from asgi_client import Client
from labelling_samples import N_PICTURES, draw_pictures, things_of
from tautcut.errors import InputError
from tautcut.labelling import server
from tautcut.labelling.journal import Journal
from tautcut.labelling.session import Session
from tautcut.labelling.things import Things

PORT, TOKEN = 8765, "a-token-that-nobody-knows"
HERE = f"http://127.0.0.1:{PORT}"
COOKIE = {"cookie": f"tautcut-{PORT}={TOKEN}"}


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Things:
    outside = tmp_path_factory.mktemp("things")
    folder = draw_pictures(outside / "pictures")
    (outside / "secret.png").write_bytes((folder / "p0.png").read_bytes())
    (folder / "link.png").symlink_to(outside / "secret.png")
    (folder / "fake.png").write_text("<script>alert(1)</script>")
    (folder / "<img src=x onerror=alert(1)>.png").write_bytes((folder / "p0.png").read_bytes())
    return things_of(folder)


@pytest.fixture
def session(things: Things, tmp_path: Path) -> Iterator[Session]:
    with Session(things, Journal(tmp_path / "labels.jsonl", {})) as session:
        yield session


@pytest.fixture
def client(session: Session) -> Client:
    """Whoever has the cookie."""
    app = server.application(session, port=PORT, token=TOKEN)
    return Client(app, f"127.0.0.1:{PORT}", dict(COOKIE))


@pytest.fixture
def stranger(session: Session) -> Client:
    """Whoever has not."""
    app = server.application(session, port=PORT, token=TOKEN)
    return Client(app, f"127.0.0.1:{PORT}")


# ---------------------------------------------------------------- who gets in


ADDRESSES = ["/", "/api/state", "/api/question", "/api/things/0", "/api/map", "/things/0/image", "/export/known.csv",
             "/assets/page.css", "/nothing", "/api/answers"]  # fmt: skip


@pytest.mark.parametrize("path", ADDRESSES)
@pytest.mark.parametrize(
    "headers",
    [{}, {"cookie": f"tautcut-{PORT}=wrong"}, {"cookie": f"tautcut-1={TOKEN}"}, {"cookie": f"tautcut-{PORT}="},
     {"authorization": f"token {TOKEN}"}],
)  # fmt: skip
def test_nothing_is_told_without_the_token(stranger: Client, path: str, headers: dict[str, str]) -> None:
    answer = stranger.get(path, headers=headers)
    assert answer.status_code == 403
    assert TOKEN not in answer.text
    assert "set-cookie" not in answer.headers
    assert stranger.get(path, params={"token": TOKEN[:-1]}, headers=headers).status_code == 403
    assert stranger.get(path, params={"token": ""}, headers=headers).status_code == 403


def test_the_address_with_the_token_gives_a_cookie_that_scripts_and_other_pages_do_not_get(stranger: Client) -> None:
    answer = stranger.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"tautcut-{PORT}={TOKEN};")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert stranger.get("/api/state").status_code == 200


def test_a_link_from_elsewhere_opens_the_page_by_a_step_of_its_own(stranger: Client) -> None:
    answer = stranger.get("/", params={"token": TOKEN}, headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert "url=/" in answer.text
    assert TOKEN not in answer.text
    assert stranger.get("/api/state").status_code == 200


def test_a_ticket_opens_the_page_once(session: Session) -> None:
    app = server.application(session, port=PORT, token=TOKEN, ticket="once")
    first, second = (Client(app, f"127.0.0.1:{PORT}") for _ in range(2))
    assert first.get("/api/state", params={"token": "once"}).status_code == 403
    assert first.get("/", params={"token": "once"}).status_code == 303
    assert first.get("/api/state").status_code == 200
    assert second.get("/", params={"token": "once"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", f"127.0.0.1.evil:{PORT}",
             f"0.0.0.0:{PORT}", f"[::1]:{PORT}", f"127.1:{PORT}", "", f"127.0.0.1:{PORT}@evil", "127.0.0.1:x"]
)  # fmt: skip
def test_another_name_of_the_server_is_refused(client: Client, host: str) -> None:
    assert client.get("/api/state", headers={"host": host}).status_code == 421
    assert client.post("/api/answers", {"id": "1", "things": [0], "label": "a"}, host=host).status_code == 421


def test_localhost_is_the_same_server(client: Client) -> None:
    host = f"localhost:{PORT}"
    assert client.get("/api/state", headers={"host": host}).status_code == 200
    given = {"id": "1", "things": [0], "label": "a"}
    assert client.post("/api/answers", given, host=host, origin=f"http://{host}").status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}", "file://",
               f"http://localhost:{PORT}", f"http://127.0.0.1:{PORT}.evil.example", ""]
)  # fmt: skip
def test_another_page_can_neither_ask_nor_answer(client: Client, session: Session, origin: str) -> None:
    assert client.get("/api/state", headers={"origin": origin}).status_code == 403
    answer = client.post("/api/answers", {"id": "1", "things": [0], "label": "a"}, origin=origin)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
    assert session.state()["revision"] == 0


def test_what_changes_something_says_where_it_comes_from(client: Client, session: Session) -> None:
    given = {"id": "1", "things": [0], "label": "a"}
    body = json.dumps(given)
    json_alone = {"content-type": "application/json"}
    assert client.request("POST", "/api/answers", body=body, headers=json_alone).status_code == 403
    assert client.post("/api/answers", given, **{"sec-fetch-site": "cross-site"}).status_code == 403
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert client.post("/api/answers", given, **{"content-type": kind}).status_code == 415
    assert session.state()["revision"] == 0


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_cannot_embed_what_is_served(client: Client, site: str) -> None:
    assert client.get("/things/0/image", headers={"sec-fetch-site": site}).status_code == 403
    assert client.get("/things/0/image", headers={"sec-fetch-site": "same-origin"}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "POST"])
@pytest.mark.parametrize("path", ["/api/state", "/things/0/image", "/export/known.csv", "/assets/page.css"])
def test_there_is_nothing_to_put_or_delete(client: Client, method: str, path: str) -> None:
    headers = {"origin": HERE, "content-type": "application/json"}
    answer = client.request(method, path, headers=headers)
    assert answer.status_code == (200 if method == "HEAD" else 405)
    assert "access-control-allow-origin" not in answer.headers


def test_the_question_after_an_answer_is_none_that_the_page_shows_already(client: Client) -> None:
    ready = list(range(1, N_PICTURES - 1))
    answer = {"id": "1", "things": [0], "label": "dark"}
    skip = ",".join(map(str, ready))
    assert client.post(f"/api/answers?skip={skip}", answer).json()["question"]["thing"]["index"] not in [0, *ready]
    assert client.post("/api/answers?skip=1;2", answer | {"id": "2"}).status_code == 400


def test_every_answer_forbids_what_the_page_does_not_need(client: Client, stranger: Client) -> None:
    answers = [
        client.get("/api/state"), client.get("/things/0/image"), client.get("/nothing"), stranger.get("/api/state"),
        client.get("/assets/page.css"), client.get("/", headers={"host": "evil"}), client.get("/export/known.csv"),
    ]  # fmt: skip
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


# ---------------------------------------------------------------- only listed files


@pytest.mark.parametrize(
    "path",
    ["/things/../secret.png", "/things/0/../../secret.png", "/things/%2e%2e/secret.png", "/things/..%2fsecret.png",
     "/assets/../session.py", "/assets/..%2fsession.py", "/assets/%2e%2e%2f%2e%2e%2fsession.py", "/assets/label.html/",
     "/assets/..%5csession.py", "/assets/%252e%252e%252fsession.py", "/assets//etc/passwd", "/assets/%00", "/assets/",
     "/export/../known.csv", "/export/labels.jsonl", "/export/%2fetc%2fpasswd", "/things/-1/image", "/things/1e3/image",
     "/things/99999/image", "/things/0/image/", "/things/0x0/image", "/things/p0.png", "/pictures/p0.png",
     "/api/things/99999", "/static/p0.png", "/docs", "/openapi.json"],
)  # fmt: skip
def test_no_path_leads_anywhere_else(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert set(answer.json()) == {"error"}


def test_a_link_that_leads_out_of_the_folder_is_not_listed(session: Session) -> None:
    assert "link.png" not in session.things.names
    assert len(session.things.names) == N_PICTURES + 2


def test_a_picture_is_served_as_what_it_is(client: Client, session: Session) -> None:
    answer = client.get("/things/0/image")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert answer.content.startswith(b"\x89PNG")


def test_what_is_no_picture_is_not_served(client: Client, session: Session) -> None:
    index = session.things.names.index("fake.png")
    thing = client.get(f"/api/things/{index}").json()["thing"]
    assert (thing["image"], thing["text"]) == (None, "not an image")
    assert client.get(f"/things/{index}/image").status_code == 404


def test_names_are_data_and_no_markup(client: Client, session: Session) -> None:
    name = "<img src=x onerror=alert(1)>.png"
    index = session.things.names.index(name)
    answer = client.get(f"/api/things/{index}")
    assert answer.json()["thing"]["name"] == name
    assert answer.headers["content-type"] == "application/json"


# ---------------------------------------------------------------- answers


def test_labelling_over_the_wire(client: Client) -> None:
    question = client.get("/api/question").json()
    index = question["thing"]["index"]
    answer = client.post("/api/answers", {"id": "k1", "things": [index], "label": "dark", "is_check": False}).json()
    assert answer["revision"] == 1
    assert answer["question"]["thing"]["index"] != index
    assert client.post("/api/answers", {"id": "k1", "things": [index], "label": "dark"}).json()["revision"] == 1
    assert client.post("/api/classes", {"id": "k2", "name": "grey"}).json() == {"revision": 2}
    skipped = client.post("/api/answers", {"id": "k3", "things": [3], "label": None, "skip": True}).json()
    assert skipped["revision"] == 3
    state = client.get("/api/state").json()
    assert [one["name"] for one in state["classes"]] == ["dark", "grey"]
    assert (state["n_labelled"], state["n_skipped"], state["can_undo"]) == (1, 1, True)
    undone = client.post("/api/undo", {"id": "k4"}).json()
    assert (undone["revision"], undone["question"]["thing"]["index"]) == (4, 3)
    assert client.get("/api/state").json()["n_skipped"] == 0
    rows = client.get("/export/known.csv").text.splitlines()
    assert rows == ["id,label", f"{question['thing']['name']},dark"]
    assert client.get("/api/map").json()["x"] == []


def test_two_tabs_at_once_lose_nothing(client: Client, session: Session) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def tab(number: int) -> None:
        for step in range(10):
            given = {"id": f"{number}-{step}", "things": [(number * 10 + step) % N_PICTURES], "label": f"class {step}"}
            assert client.post("/api/answers", given).status_code == 200

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tab, range(4)))
    assert session.state()["revision"] == 40
    assert len(session.journal.path.read_bytes().splitlines()) == 41


@pytest.mark.parametrize("path", ["/api/answers", "/api/undo", "/api/classes"])
@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", "5", '"a"', "{}", '{"id": {}}', '{"id": "1", "file": "x"}', "[" * 2000,
                '{"id": "1", "things": [1e999], "label": "a"}', '{"id": "1", "things": [0], "label": "a", "skip": 1}']
)  # fmt: skip
def test_what_is_no_request_is_refused_in_a_sentence(client: Client, session: Session, path: str, content: str) -> None:
    answer = client.post(path, content)
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")
    assert session.state()["revision"] == 0


def test_a_request_that_is_too_long_is_not_read(client: Client) -> None:
    headers = {"origin": HERE, "content-type": "application/json"}
    assert client.post("/api/answers", b"[" + b" " * 1_000_000).status_code == 413
    in_parts = [b" " * 100_000] * 40
    assert client.request("POST", "/api/answers", body=in_parts, headers=headers).status_code == 413
    for length in ("-1", "many", "9" * 30):
        assert client.post("/api/answers", b"{}", **{"content-length": length}).status_code == 413
    assert client.get("/api/question", params={"skip": "1," * 600_000 + "1"}).status_code == 400


@pytest.mark.parametrize("skip", ["x", "1,", ",1", "-1", "1;2", "1 2", "9" * 12])
def test_what_is_skipped_are_numbers(client: Client, skip: str) -> None:
    assert client.get("/api/question", params={"skip": skip}).status_code == 400
    assert client.get("/api/question", params={"skip": "0,1"}).status_code == 200


@pytest.mark.parametrize("name", ["classes.csv", "classes.parquet", "report.html", "classes.h5ad"])
def test_there_is_nothing_to_export_before_a_label_is_given(client: Client, name: str) -> None:
    answer = client.get(f"/export/{name}")
    assert answer.status_code == 409
    assert "nothing to classify by" in answer.json()["error"]


def test_formulas_in_names_are_inert_in_a_spreadsheet(client: Client) -> None:
    client.post("/api/answers", {"id": "1", "things": [0], "label": "=HYPERLINK(1)"})
    assert "'=HYPERLINK(1)" in client.get("/export/known.csv").text


def test_a_port_that_is_taken_is_refused_in_a_sentence() -> None:
    with server.bound(0) as first, pytest.raises(InputError, match="cannot be used"):
        server.bound(first.getsockname()[1])
    with pytest.raises(InputError, match="cannot be used"):
        server.bound(99999)
