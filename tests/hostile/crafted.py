"""Files that were made to do harm: bombs, lies about sizes, links out of the file, pickles, entities, names of members
that lead elsewhere. Each maker gives the bytes of one file; the folder it is given holds what a file may try to reach:
the canary and the secret, which nobody named on the command line.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp

from hostile.specimens import SPECIMENS, N, graph, points, saved, workbook

CANARY = "CANARY-7f3a-do-not-read"
MARK = "EXECUTED"  # the file that a payload makes where it is executed
Maker = Callable[[Random, Path], bytes]


def canary(folder: Path) -> Path:
    """A text file beside the input; `fuzz_cli` looks whether it was read."""
    path = folder / "canary.txt"
    path.write_text(CANARY * 20)
    return path


def secret(folder: Path) -> Path:
    """An HDF5 file beside the input."""
    import h5py

    path = folder / "secret.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.full((N, 3), 424242.0)
        file["names"] = [CANARY] * N
        file["data"] = graph(np.random.default_rng(0)).data
        for name in ("x", "data"):
            _encode(file[name], "array")
        _encode(file["names"], "string-array")
    return path


def _encode(node: Any, kind: str, version: str = "0.2.0") -> None:
    """Say as AnnData does what an HDF5 object holds."""
    node.attrs["encoding-type"], node.attrs["encoding-version"] = kind, version


class Payload:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {MARK}",)


# ---------------------------------------------------------------- arrays


def npy_header(header: str, *, version: tuple[int, int] = (1, 0), body: bytes = b"\0" * 64) -> bytes:
    raw = header.encode("latin1", "replace")
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if version == (1, 0) else "<I", len(raw)) + raw + body


def npy_of(shape: str, kind: str = "'<f8'", order: str = "False") -> str:
    return f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}"


def npy_with_odd_header(draw: Random, folder: Path) -> bytes:
    shape = draw.choice([
        "(1000000000, 1000)", "(4000000000,)", "(-1, 4)", "(0, 4)", "(4, 0)", "(2**40, 2)", "(1e9, 2)", "(2, 2, 2, 2)",
        "()", "(3,)", "(36, 4, -1)", "[36, 4]", "(9223372036854775807, 2)", "(True, 4)", "(100000, 100000)", "(0, 0)",
        "(1, 1)", "(2, 4)",
    ])  # fmt: skip
    kind = draw.choice([
        "'<f8'", "'|O'", "'<f4'", "'<c16'", "'|S8'", "'<U4'", "[('a', '<f8'), ('b', '<i4')]", "'<M8[s]'", "'|V8'",
        "'<f2'", "'<f16'", "'|b1'", "'>i8'", "'|u1'", "'<f8, <f8'", "'foo'", "'<m8[s]'", "'<u8'",
    ])  # fmt: skip
    header = npy_of(shape, kind, draw.choice(["False", "True", "1", "None"]))
    if draw.random() < 0.1:
        code = f"__import__('os').system('touch {MARK}')"
        header = draw.choice([code, "(" * 3000 + ")" * 3000, "{" * 200, "'a' * 10**10", header + " " * 60000, ""])
    body = draw.choice([b"", b"\0" * 64, np.arange(144.0).tobytes(), draw.randbytes(1200)])
    return npy_header(header, version=draw.choice([(1, 0), (2, 0), (3, 0), (9, 9)]), body=body)


def npy_pickle(draw: Random, folder: Path) -> bytes:
    return saved(np.save, np.array([Payload()] * 4, dtype=object), allow_pickle=True)


def npz_pickle(draw: Random, folder: Path) -> bytes:
    return saved(np.savez, X=np.array([Payload()], dtype=object))


def npz_bomb(draw: Random, folder: Path) -> bytes:
    """Hundreds of megabytes of zeros in a few hundred kilobytes."""
    rows, columns = draw.choice([(20_000, 20_000), (3_000_000, 100), (200_000, 4_000)])
    file, zeros = io.BytesIO(), b"\0" * 1_000_000
    entry = zipfile.ZipInfo("X.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(file, "w", compresslevel=1) as archive, archive.open(entry, "w", force_zip64=True) as member:
        member.write(npy_header(npy_of(f"({rows}, {columns})", "'|u1'"), body=b""))
        for _ in range(rows * columns // len(zeros)):
            member.write(zeros)
    return file.getvalue()


def npz_with_lying_member(draw: Random, folder: Path) -> bytes:
    shape = f"({10 ** draw.randrange(5, 12)}, {10 ** draw.randrange(5)})"
    return archived({"X.npy": npy_header(npy_of(shape))})


def archived(members: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive; the same bytes at any time of day."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, how)
    return file.getvalue()


def npz_with_odd_part(draw: Random, folder: Path) -> bytes:
    """A sparse matrix one part of which does not fit the others."""
    W = graph(np.random.default_rng(draw.randrange(99)))
    ends = W.indptr.copy()
    ends[draw.randrange(len(ends))] = draw.choice([-1, 10**6, 2**31 - 1, 0])
    odd: dict[str, Sequence[Any]] = {
        "indices": (
            W.indices - 1, W.indices + 1, W.indices * 10**6, W.indices.astype(float), W.indices.astype(np.int8),
            -W.indices.astype(np.int64) - 2**40, W.indices[:-1], W.indices[::-1],
        ),
        "indptr": (
            ends, ends[::-1], ends[:-1], np.r_[ends, ends[-1]], ends.astype(float), np.zeros(0, int), ends[None],
        ),
        "shape": (
            [10**9, 10**9], [-1, -1], [N, N, N], [N], [0, 0], [N, 10**12], [1.5, 2], "xx", [N, N - 1], [10**18, 2],
            [N, 2**63 - 1],
        ),
        "data": (
            W.data * np.nan, W.data * np.inf, -W.data, W.data.astype(complex), W.data.astype("U3"), W.data[:-1],
            W.data * 1e308, W.data * 1e-310, W.data.astype(np.float16), np.array(["x"] * W.nnz, dtype=object),
            W.data.astype(bool), W.data.astype(np.int8),
        ),
    }  # fmt: skip
    part = draw.choice(list(odd))
    parts = {"data": W.data, "indices": W.indices, "indptr": W.indptr, "shape": W.shape}
    return saved(np.savez, **{**parts, part: np.asarray(draw.choice(odd[part]))})


def npz_with_lying_format(draw: Random, folder: Path) -> bytes:
    W = graph(np.random.default_rng(draw.randrange(99)))
    listed = W.tocoo()
    form = draw.choice([b"csr", b"csc", b"coo", b"dia", b"bsr", b"lil", b"xxx", b"\xff\xfe", ["csr"], 3])
    return saved(
        np.savez, format=np.array(form), data=W.data, indices=W.indices, indptr=W.indptr, shape=np.array(W.shape),
        row=listed.row - draw.choice([0, 1]), col=listed.col + draw.choice([0, 1, 10**6]),
        offsets=np.array([0, draw.choice([1, 10**9, -(2**31)])]),
    )  # fmt: skip


def npz_with_odd_names(draw: Random, folder: Path) -> bytes:
    content = npy_header(npy_of("(4, 2)"))
    return archived(dict.fromkeys((f"../../../{MARK}.npy", str(folder / MARK), "X.npy/../X", "X", ""), content))


def npz_with_odd_compression(draw: Random, folder: Path) -> bytes:
    content = saved(np.save, points(np.random.default_rng(0)))
    how = draw.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
    return archived({"X.npy": content} if draw.random() < 0.5 else {"X.npy": b"garbage", "X": content}, how)


def npz_with_odd_labels(draw: Random, folder: Path) -> bytes:
    y: list[Any] = [
        [1.5] * N, ["\x1b[2J"] * N, np.arange(N - 1), [[1] * N], [np.nan] * N, [2**63 - 1] * N, [1 + 2j] * N,
        [b"x"] * N,
    ]  # fmt: skip
    return saved(np.savez, X=points(np.random.default_rng(0)), y=np.array(draw.choice(y)))


def npz_small_and_huge(draw: Random, folder: Path) -> bytes:
    """Formats in which a few numbers stand for a matrix of huge sides."""
    side, huge = np.array([10**8, 10**8]), np.array([10**9, 10**9])
    return draw.choice([
        saved(np.savez, format=np.array(b"dia"), shape=side, data=np.ones((1, 5)), offsets=np.array([0])),
        saved(
            np.savez, format=np.array(b"bsr"), shape=side, data=np.ones((1, 10**3, 10**3)), indices=np.array([0]),
            indptr=np.r_[0, np.ones(10**5, int)],
        ),
        saved(
            np.savez, format=np.array(b"coo"), shape=huge, data=np.ones(1), row=np.array([0]), col=np.array([1]),
            indices=np.array([0]), indptr=np.array([0]),
        ),
    ])  # fmt: skip


def npz_empty(draw: Random, folder: Path) -> bytes:
    return saved(np.savez)


def npz_encrypted(draw: Random, folder: Path) -> bytes:
    raw = bytearray(saved(np.savez, X=points(np.random.default_rng(0))))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.find(signature) + flags] |= 1
    return bytes(raw)


def mtx_of_huge_sides(draw: Random, folder: Path) -> bytes:
    n = draw.choice([10**7, 3 * 10**7, 10**8, 10**9, 10**10])
    return f"%%MatrixMarket matrix coordinate real symmetric\n{n} {n} 2\n2 1 1.0\n3 2 1.0\n".encode()


def mtx_dense_and_huge(draw: Random, folder: Path) -> bytes:
    n = draw.choice([10**4, 10**5, 10**9, 2**31])
    return f"%%MatrixMarket matrix array real general\n{n} {draw.choice([0, 1, 10, n])}\n1.0\n".encode()


def mtx_of_nonsense(draw: Random, folder: Path) -> bytes:
    form = draw.choice(["coordinate", "array", "vector", ""])
    field = draw.choice(["real", "integer", "pattern", "complex", "unsigned-integer", "x"])
    symmetry = draw.choice(["general", "symmetric", "skew-symmetric", "hermitian", "y"])
    n = draw.choice([3, 36, 10**5, 10**7, 10**9, 10**12, 2**63 - 1, -1, 0, 2**31])
    m = draw.choice([0, 1, 2, 3, 10, 10**9, -1, 2**62])
    values = ["1", "2.5", "nan", "inf", "-1", "1e400", "", "1 2", "\0"]
    entries = "".join(
        f"{draw.choice([1, 2, 3, 0, -1, n])} {draw.choice([1, 2, 3, n])} {draw.choice(values)}\n"
        for _ in range(draw.randrange(5))
    )
    return f"%%MatrixMarket matrix {form} {field} {symmetry}\n%c\n{n} {n} {m}\n{entries}".encode()


# ---------------------------------------------------------------- XML and other graphs


def prologue(draw: Random, folder: Path) -> str:
    """What may stand before a document: entities that grow, or that lead to another file or machine."""
    laughs = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
    place = canary(folder)
    return draw.choice([
        "", "", f'<!DOCTYPE g [<!ENTITY a "ha">{laughs}]>', f'<!DOCTYPE g [<!ENTITY x SYSTEM "file://{place}">]>',
        f'<!DOCTYPE g SYSTEM "file://{place}">', '<!DOCTYPE g SYSTEM "http://127.0.0.1:9/x.dtd">',
        f'<!DOCTYPE g [<!ENTITY q "{"x" * 50_000}">]>',
        f'<!DOCTYPE g [<!ENTITY % p SYSTEM "file://{place}"> %p;]>',
    ])  # fmt: skip


def declaration(draw: Random) -> str:
    return draw.choice([
        '<?xml version="1.0"?>', '<?xml version="1.0"?>', '<?xml version="1.0"?>', "", '<?xml version="1.1"?>',
        '<?xml version="1.0" encoding="UTF-16"?>', '<?xml version="1.0" encoding="xyz"?>',
        '\ufeff<?xml version="1.0"?>',
    ])  # fmt: skip


def entity(draw: Random) -> str:
    return draw.choice(["", "", "", "&j;", "&x;", "&amp;", "&#0;", "&#x10FFFF;", "&undefined;", "&q;" * 20_000])


def odd_name(draw: Random) -> str:
    return draw.choice(["a", "\x1b[31m", "</script>", "=1+1", "é" * 100, "a" * 10**5, "", "1", "b", "\ud7ff", "'"])


def encoded(text: str, draw: Random) -> bytes:
    return text.encode(draw.choice(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"]), "replace")


def hostile_graphml(draw: Random, folder: Path) -> bytes:
    weight = '<key id="w" for="edge" attr.name="weight">{default}</key><edge source="a" target="b">{data}</edge>'
    more = draw.choice([
        "", "<hyperedge/>", '<edge source="zz" target="b"/>', "<edge/>", "<node/>", "<data>1</data>",
        '<data key="nokey">1</data>', '<edge source="b" target="b"/>', "<graph>" * 20_000 + "</graph>" * 20_000,
        '<edge source="a" target="b"><data key="w">x</data></edge>', "<default>5</default>",
        weight.format(default="", data='<data key="w">nan</data>'),
        weight.format(default="<default>abc</default>", data=""),
        weight.format(default="", data='<data key="w">-1</data>'),
        *(
            f'<key id="m" for="node" attr.name="mass">{default}</key><node id="q"><data key="m">{mass}</data></node>'
            for default in ("", "<default>1</default>") for mass in ("1", "0", "-1", "nan", "1e400", "x", "")
        ),
        "<![CDATA[" + "x" * 10**6 + "]]>", '<port name="x"/>',
        "<node id='q'><graph><node id='r'/></graph></node>", "<desc>" + "y" * 10**6 + "</desc>",
    ])  # fmt: skip
    name, direction = odd_name(draw), draw.choice(["directed", "undirected", ""])
    return encoded(
        f'{declaration(draw)}{prologue(draw, folder)}<graphml><graph edgedefault="{direction}"><node id="{name}"/>'
        f'<node id="b"/><edge source="{name}" target="b"/>{more}{entity(draw)}</graph></graphml>',
        draw,
    )


def hostile_gexf(draw: Random, folder: Path) -> bytes:
    more = draw.choice([
        "", "<node/>", '<node id="b"/>', '<node id="c" pid="c"/>', "<nodes>" * 20_000 + "</nodes>" * 20_000,
        '<node id="d" start="x" end="y"/>', '<attvalues><attvalue for="0" value="x"/></attvalues>',
    ])  # fmt: skip
    line = draw.choice([
        '<edge source="b" target="zz"/>', "<edge/>", '<edge id="0" source="b" target="b" weight="nan"/>',
        '<edge id="0" source="b" target="b" weight="x"/>', '<edge id="0" source="b" target="b" weight="-1e400"/>', "",
    ])  # fmt: skip
    mode = draw.choice(["static", "dynamic", ""])
    return encoded(
        f'{declaration(draw)}{prologue(draw, folder)}<gexf version="{draw.choice(["1.2", "1.1", "9", ""])}">'
        f'<graph mode="{mode}" defaultedgetype="{draw.choice(["undirected", "mutual", ""])}">'
        f'<nodes><node id="{odd_name(draw)}" label="{odd_name(draw)}"/><node id="b"/>{more}{entity(draw)}</nodes>'
        f"<edges>{line}</edges></graph></gexf>",
        draw,
    )


def hostile_gml(draw: Random, folder: Path) -> bytes:
    big, deep = "9" * draw.choice([5, 19, 30, 5000]), draw.choice([10, 1_000, 50_000])
    body = draw.choice([
        f"node [ id {big} ] node [ id 1 ] edge [ source {big} target 1 ]",
        'node [ id 0 label "a" ] node [ id 1 label "a" ] edge [ source 0 target 1 ]',
        "node [ id 0 ] node [ id 0 ]",
        "node [ ]",
        "edge [ source 0 target 1 ]",
        "node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight nan ]",
        "node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight 1e999 ]",
        "node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight -1.0 ]",
        'node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight "x" ]',
        f'node [ id 0 label "{odd_name(draw)}" ]',
        f'node [ id 0 label "&#{draw.choice([0, 27, 1114112, 55296, 65])};" ]',
        "x [ " * deep + "] " * deep,
        "directed 1 multigraph 1 node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] edge [ source 0 target 1 ]",
        f"node [ id 0 label {big} ] node [ id 1 label 1.5 ]",
    ])  # fmt: skip
    return encoded(draw.choice(["graph [ {} ]", "graph [ {}", "{}", "graph [ ] graph [ {} ]"]).format(body), draw)


def hostile_edgelist(draw: Random, folder: Path) -> bytes:
    """Lines whose end networkx reads as a Python literal."""
    code = f"__import__('os').system('touch {MARK}')"
    end = draw.choice([
        code, f"{{'weight': {code}}}", "{" * 3_000, "{'weight': 10**10**10}", "{'weight': [1]}", "{'weight': None}",
        "{'weight': 'x'}", "{'weight': nan}", "{1: 2}", "{'weight': -1}", "{'weight': 1e400}", "{", "}", "{[]: 1}",
        "{'weight': " + "(" * 500 + ")" * 500 + "}", "{'weight': True}", "{'weight': 1j}", "{'weight': b'x'}",
    ])  # fmt: skip
    return encoded("".join(f"{i} {draw.choice([i + 1, odd_name(draw)])} {end}\n" for i in range(12)), draw)


def hostile_metis(draw: Random, folder: Path) -> bytes:
    n, m = draw.choice([0, 1, 3, 10**9, 10**18, 36]), draw.choice([0, 1, 2, 3, 10**9])
    form = draw.choice(["", "1", "001", "010", "011", "111", "999", "1 5", "11 1000000000", "011 0", "010 2", "²"])
    rows = ("2", "1 3", "2 2", "", "1 1", "2 0.5", "nan", "-1", "1 1 2 1", "99", "2 1 3 1", "\0")
    return "\n".join([f"{n} {m} {form}", *draw.choices(rows, k=draw.choice([0, 3, 3, 36])), ""]).encode()


# ---------------------------------------------------------------- tables


def hostile_text(draw: Random, folder: Path) -> bytes:
    def rows(form: str, n: int = 30) -> str:
        """The line once for each i; "{i}" is its number and "{odd}" an odd value."""
        odd = ["1", "0", "-1", "nan", "1e308", "x", "", "1e-320"]
        return "".join(form.format(i=i, three=i % 3, odd=draw.choice(odd)) + "\n" for i in range(n))

    wide, ones = ",".join(f"c{i}" for i in range(30_000)), ",".join("1" * 30_000)
    text = draw.choice([
        "a,b\n" + "1,2\n" * 30 + '"unclosed,3\n' + "1,2\n" * 30,
        "x" * 140_000 + ",2\n1,2\n",
        f"{wide}\n{ones}\n{ones}\n",
        "id,a\n" + rows("=cmd|' /C calc'!A{i},{three}"),
        "id,a,b\n" + rows("x,{three},{i}"),
        "a,a,a\n" + "1,2,3\n" * 30,
        "1,1,1\n" * 40,
        "\ufeffid;a;b\n" + rows("p{i};{i},5;{i}"),
        "a b c\n" * 50,
        "\u2028".join(f"{i},{i * i}" for i in range(30)),
        "source,target,weight\n" + rows("{i},{three},{odd}", 20),
        "source,target\n" + "".join(f"{draw.choice(['a', 'A', '', ' a', '1', '01'])},{i % 4}\n" for i in range(20)),
        "x,y\n1e308,-1e308\n-1e308,1e308\n" + "1e308,1e308\n" * 20,
        "x,y\n" + rows("{i}e-320,{i}e-322"),
        "x,y\n" + rows("1" * 400 + ",{i}", 5),
        "x\n" + rows("{three}", draw.choice([1, 2, 3, 12])),
        "id,x,note\n" + rows("p{i},{three}," + "n" * 20_000),
        "x,y\n" + rows("{odd},{three}"),
        "\0".join(["x,y", *("1,2" for _ in range(20))]),
        "x,y\n" + rows("1.234.567,89;{i}") + "\n" * 3_000,
        "x,label\n" + rows("{i},\x1b[31m{three}"),
    ])  # fmt: skip
    return text.encode("utf-8")


def hostile_parquet(draw: Random, folder: Path) -> bytes:
    import pyarrow as pa

    numbers = pa.array(np.arange(N))
    binary = pa.array([b"\xff\xfe"] * N)
    table = draw.choice([
        pa.table({"x": pa.array([[1, 2]] * N), "y": numbers}),
        pa.table({"x": pa.array([None] * N, pa.float64()), "y": numbers}),
        pa.Table.from_arrays([numbers, numbers], names=["x", "x"]),
        pa.table({"x": pa.array([float("nan"), float("inf")] * (N // 2)), "y": numbers}),
        pa.table({
            "d": pa.array([1, 2] * (N // 2), pa.timestamp("s")), "b": binary,
            "dec": pa.array([1] * N, pa.decimal128(5, 2)),
        }),
        pa.table({}),
        pa.table({"": numbers, "\x1b[31m": numbers, "a.b": numbers, "id": pa.array(np.arange(N) // 2)}),
        pa.table({
            "s": pa.array([{"a": 1, "b": 2}] * N), "u64": pa.array(np.full(N, 2**64 - 1, np.uint64)),
            "f16": pa.array(np.ones(N, np.float16)), "i": numbers,
        }),
    ])  # fmt: skip
    return written_parquet(table, times=1)


def parquet_bomb(draw: Random, folder: Path) -> bytes:
    """Up to 60 million rows of constants, which the format keeps in a few kilobytes."""
    import pyarrow as pa

    codes = pa.array(np.zeros(1_000_000, np.int8))
    column = pa.DictionaryArray.from_arrays(codes, pa.array([1.0]))
    return written_parquet(pa.table({f"x{i}": column for i in range(4)}), times=draw.choice([10, 60]))


def written_parquet(table: Any, *, times: int) -> bytes:
    import pyarrow.parquet as pq

    file = io.BytesIO()
    with pq.ParquetWriter(file, table.schema) as writer:
        for _ in range(times):
            writer.write_table(table)
    return file.getvalue()


def hostile_xlsx(draw: Random, folder: Path) -> bytes:
    numbers = "".join(f"<row><c><v>{i}</v></c><c><v>{i % 5}</v></c></row>" for i in range(N))
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    text = '<c t="inlineStr"><is><t>{}</t></is></c>'
    rows = draw.choice([
        numbers, far, numbers + far, "<row>" * 20_000, "", f"<row>{text.format('=1+1')}</row>{numbers}",
        f"<row>{text.format('&x;')}</row>{numbers}", '<row><c t="s"><v>99999</v></c></row>',
        '<row><c t="e"><v>#REF!</v></c></row>', '<row r="-1"><c r="A0"><v>x</v></c></row>',
        '<row r="99999999999"><c r="ZZZZZZ1"><v>1</v></c></row>', f"<row><c><v>{'9' * 5_000}</v></c></row>",
        f"<row><c><f>SUM(A1)</f><v>nan</v></c></row>{numbers}", "<row><c/></row>" * 100_000,
    ])  # fmt: skip
    before = draw.choice(
        ["", "", '<dimension ref="A1:XFD1048576"/>', '<dimension ref="B9:A1"/>', '<dimension ref="?"/>']
    )
    others = draw.choice([{}, {f"../../{MARK}": b"x"}, {"xl/sharedStrings.xml": b"<sst"}, {"big": b"\0" * 50_000_000}])
    return workbook(rows, before=before, prologue=prologue(draw, folder), others=others)


# ---------------------------------------------------------------- HDF5


def hostile_h5ad(draw: Random, folder: Path) -> bytes:
    import h5py

    file = io.BytesIO(SPECIMENS[".h5ad"](np.random.default_rng(draw.randrange(50))))
    other = secret(folder)
    with h5py.File(file, "r+") as store:
        for name in ("obsp", "obsm"):
            for key in list(store[name]) if draw.random() < 0.8 else []:
                del store[name][key]
        draw.choice(_OF_HDF5)(store, other, draw)
    return file.getvalue()


def _x_of(store: Any, **content: Any) -> None:
    """X as another dataset."""
    del store["X"]
    _encode(store.create_dataset("X", **content), "array")


def _linked_x(store: Any, other: Path, draw: Random) -> None:
    import h5py

    del store["X"]
    store["X"] = draw.choice([h5py.ExternalLink(str(other), "/x"), h5py.SoftLink("/obs"), h5py.SoftLink("/X")])


def _stored_elsewhere(store: Any, other: Path, draw: Random) -> None:
    import h5py

    _x_of(store, shape=(N, 3), dtype="u1", external=[(str(canary(other.parent)), 0, h5py.h5f.UNLIMITED)])


def _virtual(store: Any, other: Path, draw: Random) -> None:
    import h5py

    layout = h5py.VirtualLayout(shape=(N, 3), dtype="f8")
    layout[:] = h5py.VirtualSource(str(other), "x", shape=(N, 3))
    del store["X"]
    _encode(store.create_virtual_dataset("X", layout), "array")


def _linked_part(store: Any, other: Path, draw: Random) -> None:
    """A sparse matrix whose weights are in the other file."""
    import h5py

    W = graph(np.random.default_rng(0))
    _sparse(store, "X", W, shape=(N, N))
    del store["X/data"]
    store["X/data"] = h5py.ExternalLink(str(other), "/data")


def _sparse(store: Any, name: str, W: sp.csr_matrix, *, shape: tuple[int, ...]) -> None:
    if name in store:
        del store[name]
    group = store.create_group(name)
    _encode(group, "csr_matrix", "0.1.0")
    group.attrs["shape"] = shape
    group["data"], group["indices"], group["indptr"] = W.data, W.indices, W.indptr


def _linked_categories(store: Any, other: Path, draw: Random) -> None:
    import h5py

    part = draw.choice(["codes", "categories"])
    del store["obs/label"][part]
    store["obs/label"][part] = h5py.ExternalLink(str(other), draw.choice(["/names", "/x"]))


def _linked_room(store: Any, other: Path, draw: Random) -> None:
    """A whole group is in the other file, which a copy with labels would write to."""
    import h5py

    name = draw.choice(["obsm", "uns", "obs", "var", "obsp", "layers"])
    if name in store:
        del store[name]
    store[name] = h5py.ExternalLink(str(other), "/")


def _linked_names(store: Any, other: Path, draw: Random) -> None:
    import h5py

    del store["obs"][store["obs"].attrs["_index"]]
    store["obs"]["_index"] = h5py.ExternalLink(str(other), "/names")


def _huge(store: Any, other: Path, draw: Random) -> None:
    """A dataset without storage."""
    _x_of(store, shape=draw.choice([(N, 10**9), (N, 10**8), (10**6, 10**6)]), dtype="f8", chunks=True)


def _odd_encoding(store: Any, other: Path, draw: Random) -> None:
    kinds: list[Any] = ["pickle", "awkward-array", "dataframe", "csr_matrix", "null", "rec-array", "\x1b[31m", 5]
    store["X"].attrs["encoding-type"] = draw.choice(kinds)


def _odd_index_name(store: Any, other: Path, draw: Random) -> None:
    names: list[Any] = ["../X", "nothere", "", "/X", "label", 5]
    store["obs"].attrs["_index"] = draw.choice(names)


def _no_table(store: Any, other: Path, draw: Random) -> None:
    del store["obs"]
    if draw.random() < 0.5:
        store["obs"] = np.arange(N)


def _odd_x(store: Any, other: Path, draw: Random) -> None:
    arrays = [
        np.array([b"\x80\x04csystem"] * N), np.zeros((N, 3), complex), np.zeros(N), np.zeros((N, 2, 2)),
        np.full((N, 3), np.nan), np.zeros((0, 0)), np.zeros((N - 1, 3)), np.zeros((N, 3), "S5"),
    ]  # fmt: skip
    _x_of(store, data=draw.choice(arrays))


def _odd_graph(store: Any, other: Path, draw: Random) -> None:
    W = graph(np.random.default_rng(0))
    shape = draw.choice([(N, N), (10**9, 10**9), (-1, N), (N, N - 1), (N,)])
    _sparse(store, "obsp/connectivities", W, shape=shape)
    odd: dict[str, Sequence[Any]] = {
        "data": (-W.data, W.data * np.nan),
        "indices": (W.indices - 5, W.indices * 10**5),
        "indptr": (W.indptr[::-1].copy(), W.indptr[:-3]),
    }
    part = draw.choice(list(odd))
    del store["obsp/connectivities"][part]
    store["obsp/connectivities"][part] = draw.choice(odd[part])


def _odd_names(store: Any, other: Path, draw: Random) -> None:
    index = store["obs"].attrs["_index"]
    del store["obs"][index]
    store["obs"][index] = draw.choice([
        np.arange(N), np.array([b"x"] * N), np.array([b"\xff\xfe"] * N), np.array([b"=1+1"] * N), np.zeros((N, 2)),
    ])  # fmt: skip
    _encode(store["obs"][index], draw.choice(["string-array", "string-array", "array"]))


def _no_attributes(store: Any, other: Path, draw: Random) -> None:
    for name in list(store.attrs):
        del store.attrs[name]
    if "uns" in store:
        del store["uns"]
    uns: list[Any] = [5, "x"]
    store["uns"] = draw.choice(uns)


_OF_HDF5: tuple[Callable[[Any, Path, Random], None], ...] = (
    _linked_x, _stored_elsewhere, _virtual, _linked_part, _linked_categories, _linked_room, _linked_room, _linked_names,
    _huge, _odd_encoding, _odd_index_name, _no_table, _odd_x, _odd_graph, _odd_names, _no_attributes,
)  # fmt: skip

CRAFTED: dict[str, tuple[Maker, ...]] = {
    ".npy": (npy_with_odd_header, npy_with_odd_header, npy_pickle),
    ".npz": (
        npz_pickle, npz_bomb, npz_with_lying_member, npz_with_odd_part, npz_with_odd_part, npz_with_odd_part,
        npz_with_odd_part, npz_with_lying_format, npz_with_odd_names, npz_with_odd_compression, npz_with_odd_labels,
        npz_small_and_huge, npz_empty, npz_encrypted,
    ),
    ".mtx": (mtx_of_huge_sides, mtx_dense_and_huge, mtx_of_nonsense),
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat", ".edges"), (hostile_text,)),
    ".edgelist": (hostile_edgelist,),
    ".graph": (hostile_metis,),
    ".graphml": (hostile_graphml,),
    ".gml": (hostile_gml,),
    ".gexf": (hostile_gexf,),
    ".parquet": (*(hostile_parquet,) * 7, parquet_bomb),
    ".xlsx": (hostile_xlsx,),
    ".h5ad": (hostile_h5ad,),
}  # fmt: skip
