"""No file that was handed in is obeyed, fills the disk, or costs anybody else's."""

import os
import zipfile
from pathlib import Path

import pytest
from handed import NAME, by_path, pack, put, submitted, take, work

from grading.intake import files
from grading.intake.collect import collect
from grading.settings import Places


def test_what_must_not_be_read_is_refused_with_a_reason(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST", 300_000)
    link, secret = (zipfile.ZipInfo(f"{who}_{NAME}.ipynb") for who in ("eve", "fay"))
    link.external_attr = 0o120777 << 16
    outside = [f"{way}ann_{NAME}.ipynb" for way in ("../../", "/etc/", "C:/")]
    deep = "/".join("x" * 13) + ".ipynb"
    contents = dict.fromkeys(outside, work()) | {
        f"dan_{NAME}.ipynb": b"0" * 300_001,
        deep: work(),
        f"ok_{NAME}.ipynb": work(),
    }
    source = pack(tmp_path / "in.zip", contents)
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr(secret, "x")
    encrypted = bytearray(source.read_bytes())
    at = encrypted.rindex(b"PK\x01\x02")
    encrypted[at + 8] |= 1
    source.write_bytes(encrypted)
    rows = by_path(collect(source, places))
    reasons = {path: row.reason for path, row in rows.items() if row.status == "refused"}
    assert reasons == dict.fromkeys(outside, "its path leads out of the archive") | {
        f"dan_{NAME}.ipynb": "0.3 MB, at most 0 MB are taken",
        f"eve_{NAME}.ipynb": "a link, not a file",
        f"fay_{NAME}.ipynb": "encrypted",
        deep: "its path is too long",
    }
    assert {path.name for path in places.submitted.iterdir()} == {"ok"}
    assert not (tmp_path / f"ann_{NAME}.ipynb").exists()


def test_links_and_pipes_in_a_folder_are_not_followed(tmp_path: Path, places: Places) -> None:
    secret = put(tmp_path / "secret", {"x.ipynb": work("secret")})
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / f"bob_{NAME}.ipynb").symlink_to(secret / "x.ipynb")
    (folder / "cy.ipynb").symlink_to(secret)
    os.mkfifo(folder / "di.ipynb")  # whoever opens it waits for ever
    rows = collect(folder, places)
    assert {row.status for row in rows} == {"refused"}
    assert len(rows) == 3
    assert not places.submitted.exists()


def test_a_bomb_is_not_unpacked_whole(
    tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LARGEST", 200_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(50):
            archive.writestr(f"{i}.ipynb", b"0" * 190_000)
    contents = {"bob.zip": (tmp_path / "bomb.zip").read_bytes(), f"cy_{NAME}.ipynb": work()}
    rows = collect(pack(tmp_path / "in.zip", contents), places)
    assert len([row for row in rows if row.path.startswith("bob.zip/")]) == 4
    assert [row.reason for row in rows if row.status == "refused"] == [
        "bob.zip/ holds too much: 0.8 MB, at most 0 MB are taken"
    ]
    assert [row.student for row in rows if row.status == "collected"] == ["cy"]


def test_files_of_zeros_fill_no_disk_and_a_flood_stalls_nobody(
    tmp_path: Path, places: Places
) -> None:
    with zipfile.ZipFile(tmp_path / "zeros.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(2):
            archive.writestr(f"{i}.bin", b"%d" % i + b"0" * (19 << 20))
    with zipfile.ZipFile(tmp_path / "flood.zip", "w") as archive:
        for i in range(60):
            archive.writestr(f"{i}.txt", b"")
        archive.writestr("x.ipynb", work("behind the flood"))
    contents = {
        f"{name}.zip": (tmp_path / f"{name}.zip").read_bytes() for name in ("zeros", "flood")
    }
    rows = take(places, contents | {f"cy_{NAME}.ipynb": work()})
    assert "flood.zip holds more than 50 files; the others are not read" in {r.reason for r in rows}
    assert len([row for row in rows if row.path.startswith("flood.zip")]) == 51
    assert submitted(places, "flood") == work("behind the flood")
    assert sum(path.stat().st_size for path in places.collected.rglob("*.bin")) < 60 << 20
    assert submitted(places, "cy") == work()


def spoiled(path: Path, how: str) -> bytes:
    """A zip that a program cannot read, or not to its end."""
    data = bytearray(pack(path, {f"x_{NAME}.ipynb": work() * 3}).read_bytes())
    at = data.rindex(b"PK\x01\x02")
    if how == "directory":
        data[-40:-30] = b"\xff" * 10
    elif how == "end":
        del data[len(data) // 2 :]
    elif how == "method":
        data[at + 10 : at + 12] = b"\x63\x00"
    elif how == "offset":
        data[at + 42 : at + 46] = b"\xff\xff\xff\x7f"
    else:
        with zipfile.ZipFile(path, "w", {"deflated": 8, "lzma": 14}[how]) as archive:
            archive.writestr(f"x_{NAME}.ipynb", work() * 3)
        data = bytearray(path.read_bytes())
        data[200:300] = b"\x11" * 100
    return bytes(data)


@pytest.mark.parametrize("how", ["directory", "end", "method", "offset", "deflated", "lzma"])
def test_a_damaged_zip_stops_nobody_else(tmp_path: Path, places: Places, how: str) -> None:
    bad = spoiled(tmp_path / "bad.zip", how)
    contents = {"bob/all.zip": bad, f"cy-{how}/{NAME}.ipynb": work("cy")}
    rows = collect(pack(tmp_path / f"{how}.zip", contents), places)
    assert {row.status for row in rows if row.path.startswith("bob")} <= {
        "refused",
        "not recognised",
    }
    assert submitted(places, f"cy-{how}") == work("cy")


def test_names_that_are_no_utf8_or_do_not_say_so_are_read(tmp_path: Path, places: Places) -> None:
    folder = os.fsencode(tmp_path / "in") + b"/J\xfcrgen Wei\xdf_7_assignsubmission_file"
    os.makedirs(folder)
    with open(folder + b"/x.ipynb", "wb") as file:
        file.write(work("j"))
    assert [row.student for row in collect(tmp_path / "in", places)] == ["jurgen_weiss"]
    entry = zipfile.ZipInfo("x.ipynb")
    entry.filename = "Jürgen.ipynb".encode().decode("cp437")
    assert files._name(entry) == "Jürgen.ipynb"
