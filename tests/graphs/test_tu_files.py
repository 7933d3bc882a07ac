"""The files of a TU data set. (Invalid ones are tested in tests/cli/test_bad_input.py.)"""

import zipfile

import pytest

from sagpool.errors import SagpoolError
from sagpool.foreign import archives
from sagpool.graphs.tu_files import holds_data, open_files


def test_folder_raw_folder_and_zip_give_the_same(small):
    packed = small.zip()
    unpacked = small.folder.with_name("OTHER")
    unpacked.mkdir()
    small.folder.rename(unpacked / "raw")
    for path in (packed, unpacked, unpacked / "raw"):
        assert holds_data(path)
        opened = open_files(path)
        assert opened.name == "SMALL"
        assert opened.has("node_labels")
        assert not opened.has("edge_attributes")
        assert opened.read("graph_labels") == b"-1\n1\n1\n-1\n"


def test_a_zip_may_have_its_files_at_the_top(small):
    path = small.folder.with_name("flat.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in small.folder.iterdir():
            archive.write(file, file.name)
    opened = open_files(path)
    assert opened.name == "SMALL"
    assert opened.read("graph_labels") == b"-1\n1\n1\n-1\n"
    assert opened.label("A") == f"{path}: SMALL_A.txt"


def test_a_zip_is_not_unpacked(small, tmp_path):
    path = small.zip()
    before = sorted(tmp_path.rglob("*"))
    open_files(path).read("A")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_something_else_holds_no_data(tmp_path):
    (tmp_path / "notes.txt").write_text("A")
    assert not holds_data(tmp_path)
    assert not holds_data(tmp_path / "absent")
    assert not holds_data(tmp_path / "absent.zip")


def test_the_limit_on_the_size_of_a_zip(small, monkeypatch):
    path = small.zip()
    monkeypatch.setattr(archives, "ANY_RATIO", 100)  # bytes; the ratio alone decides above that
    assert open_files(path).read("A")
    monkeypatch.setenv("SAGPOOL_MAX_UNPACKED", "100")
    refused = r"is refused: its .* bytes would unpack to .* \(SAGPOOL_MAX_UNPACKED raises"
    with pytest.raises(SagpoolError, match=refused):
        open_files(path)


def test_an_entry_larger_than_its_declared_size_is_refused(small):
    """The size in the directory of the archive is what was checked, so no more may be read."""
    small.file("A").write_bytes(b"1, 2\n" * 2_000)
    path = small.zip()
    content = path.read_bytes()
    claimed = (5).to_bytes(4, "little")
    path.write_bytes(content.replace((10_000).to_bytes(4, "little"), claimed))
    with pytest.raises(SagpoolError, match="is not a complete zip file"):
        open_files(path).read("A")


def test_an_encrypted_zip(small):
    path = small.zip()
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = content.find(signature)
        while start >= 0:
            content[start + flags] |= 1
            start = content.find(signature, start + 1)
    path.write_bytes(content)
    with pytest.raises(SagpoolError, match=r"SMALL\.zip is refused: .*encrypted"):
        open_files(path).read("A")


def test_the_stamp_changes_with_every_file(small):
    path = small.zip()
    stamps = {open_files(small.folder).stamp(), open_files(path).stamp()}
    small.change("node_labels", 1, "2")
    stamps.add(open_files(small.folder).stamp())
    small.file("edge_labels").unlink()
    stamps.add(open_files(small.folder).stamp())
    small.zip()
    stamps.add(open_files(path).stamp())
    assert len(stamps) == 5


def test_the_metadata_files_of_macos_are_ignored(small):
    packed = small.zip()
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("__MACOSX/SMALL/._SMALL_A.txt", b"\0")
    assert open_files(packed).name == "SMALL"
