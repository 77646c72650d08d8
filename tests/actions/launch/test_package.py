"""A package contains the same files as Ray's own, and equal content gives an equal package."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from cockpit.actions.launch import package as packing
from cockpit.actions.launch.package import StoppedError, find_contents, pack, pack_archive
from cockpit.config.document import InputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "job"
    made.mkdir()
    return made


def write_files(folder: Path, **files: str) -> None:
    """`sub__name_py` is sub/name.py."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(folder: Path, *excludes: str, **env: str) -> list[str]:
    return [found.name for found in find_contents(folder, excludes, env=env).found]


def unpacked(package: packing.Package) -> dict[str, bytes]:
    with zipfile.ZipFile(package.data) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_folder_is_packed_with_its_modes_and_empty_folders(folder):
    write_files(folder, train_py="print(1)", lib__data_txt="x" * 5000)
    (folder / "outputs").mkdir()
    (folder / "train.py").chmod(0o755)
    package = pack(find_contents(folder))
    assert unpacked(package) == {"lib/data.txt": b"x" * 5000, "outputs/": b"", "train.py": b"print(1)"}
    with zipfile.ZipFile(package.data) as archive:
        assert archive.getinfo("train.py").external_attr >> 16 == stat.S_IFREG | 0o755
    assert (package.contents.files, package.contents.size) == (2, 5008)
    assert package.size < 1000
    assert [each.name for each in package.contents.largest] == ["lib/data.txt", "train.py"]


@pytest.mark.process
def test_patterns_are_read_as_git_reads_them(folder):
    git = "*.log\n!keep.log\n/build/\n# data\ndata/*\n!data/small.txt\n"
    write_files(folder, a_log="", keep_log="", build__x_py="", src__build__y_py="")
    write_files(folder, data__big_txt="", data__small_txt="", src__b_log="", src__c_py="")
    (folder / ".gitignore").write_text(git)
    (folder / "src" / ".gitignore").write_text("!b.log\nc.py\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    listed = subprocess.run(
        ["git", "-C", str(folder), "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    assert sorted(names(folder)) == sorted(listed.stdout.splitlines())
    assert "src/b.log" in names(folder)
    assert "data/small.txt" in names(folder)


def test_rays_own_client_packs_the_same_and_ray_unpacks_it(folder, tmp_path):
    packaging = pytest.importorskip("ray._private.runtime_env.packaging")
    write_files(
        folder, train_py="1", a_log="", keep_log="", _git__config="", data__big_bin="b", data__r_txt="r", src__deep__x_py="x", src__y_tmp=""
    )
    (folder / ".gitignore").write_text("*.log\n!keep.log\n")
    (folder / "src" / ".gitignore").write_text("*.tmp\n")
    (folder / ".rayignore").write_text("/data/*.bin\n")
    (folder / "outputs").mkdir()
    (folder / "train.py").chmod(0o755)
    (folder / "link.py").symlink_to(folder / "train.py")
    (folder / "nowhere").symlink_to(tmp_path / "nowhere")
    packaging.create_package(str(folder), tmp_path / "rays.zip", include_gitignore=True, excludes=[".git"])
    package = pack(find_contents(folder))
    (tmp_path / "ours.zip").write_bytes(b"".join(package.pieces()))
    for name in ("rays", "ours"):
        packaging.unzip_package(str(tmp_path / f"{name}.zip"), str(tmp_path / name), False, False)
    trees = [
        {
            str(path.relative_to(tmp_path / name)): (path.stat().st_mode, path.is_file() and path.read_bytes())
            for path in (tmp_path / name).rglob("*")
        }
        for name in ("rays", "ours")
    ]
    assert trees[0] == trees[1]
    assert {"train.py", "link.py", "keep.log", "outputs", "src/deep/x.py", "data/r.txt"} <= set(trees[0])
    assert packaging.is_zip_uri(package.uri)


def test_rayignore_only_excludes_more_and_the_runtime_envs_excludes_apply_too(folder):
    write_files(folder, a_py="", b_bin="", sub__c_bin="", sub__d_txt="")
    (folder / ".gitignore").write_text("b.bin\n")
    (folder / ".rayignore").write_text("!b.bin\n/sub/*.txt\n")
    assert names(folder) == [".gitignore", ".rayignore", "a.py", "sub/c.bin"]
    assert "b.bin" in names(folder, RAY_RUNTIME_ENV_IGNORE_GITIGNORE="1")
    write_files(folder, big_bin="", sub__big_bin="")
    assert names(folder, "/big.bin") == [".gitignore", ".rayignore", "a.py", "sub/big.bin", "sub/c.bin"]


def test_files_that_ray_excludes_are_left_out(folder):
    write_files(folder, _git__config="", _venv__bin__python="", a_py="", sub__b_py="")
    (folder / "sub" / "__pycache__").mkdir()
    (folder / "sub" / "__pycache__" / "a.pyc").write_text("")
    assert names(folder) == ["a.py", "sub/b.py"]
    assert ".git/config" in names(folder, RAY_OVERRIDE_RUNTIME_ENV_DEFAULT_EXCLUDES="")


def test_the_same_content_is_the_same_package_at_any_time_and_place(tmp_path):
    packages = []
    for number, name in enumerate(("one", "two")):
        write_files(tmp_path / name, b_py="2", a__c_py="3")
        os.utime(tmp_path / name / "b.py", (number, number))
        packages.append(pack(find_contents(tmp_path / name)))
    assert packages[0].uri == packages[1].uri
    assert packages[0].uri.startswith("gcs://_ray_pkg_")
    assert b"".join(packages[0].pieces()) == b"".join(packages[1].pieces())


@pytest.mark.parametrize("change", ["content", "name", "mode", "empty folder"])
def test_other_content_is_another_package(folder, change):
    write_files(folder, a_py="1", b_py="2")
    before = pack(find_contents(folder)).uri
    if change == "content":
        write_files(folder, a_py="12", b_py="")
    elif change == "name":
        (folder / "a.py").rename(folder / "c.py")
    elif change == "mode":
        (folder / "a.py").chmod(0o700)
    else:
        (folder / "outputs").mkdir()
    assert pack(find_contents(folder)).uri != before


def test_linked_files_are_packed_as_ray_packs_them(folder, tmp_path):
    write_files(tmp_path / "shared", reward_py="r", deep__x_py="x")
    (folder / "reward.py").symlink_to(tmp_path / "shared" / "reward.py")
    (folder / "deep").symlink_to(tmp_path / "shared" / "deep")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "again").symlink_to(folder)
    contents = find_contents(folder)
    assert [found.name for found in contents.found] == ["deep/x.py", "reward.py"]
    assert contents.skipped == ["again is left out: it is a link to a folder above it", "gone is left out: it is a broken link"]
    assert unpacked(pack(contents)) == {"deep/x.py": b"x", "reward.py": b"r"}


def test_files_that_cannot_be_packed_are_reported(folder):
    write_files(folder, a_py="")
    os.mkfifo(folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "sock"))
    listener.close()
    (folder / "back\\slash").write_text("")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff")).write_text("")
    contents = find_contents(folder)
    assert [found.name for found in contents.found] == ["a.py"]
    assert [line.partition(": ")[2] for line in contents.skipped] == [
        "Ray can't unpack a name with a backslash",
        "it is neither a file nor a folder",
        "it is neither a file nor a folder",
        "its name is not UTF-8",
    ]


def test_files_that_vanish_or_change_during_packing_are_reported(folder, monkeypatch):
    write_files(folder, a_py="1", b_log="2", c_txt="3")
    contents = find_contents(folder)
    (folder / "a.py").unlink()
    copy = packing._copy

    def growing(source, archive, entry, *rest):
        length = copy(source, archive, entry, *rest)
        if entry.filename == "b.log":
            with (folder / "b.log").open("a") as log:
                log.write("more")
        return length

    monkeypatch.setattr(packing, "_copy", growing)
    package = pack(contents)
    assert package.contents.skipped == ["a.py was left out: no such file or directory", "b.log changed while it was packed"]
    assert unpacked(package) == {"b.log": b"2", "c.txt": b"3"}


def test_too_large_a_folder_is_refused_before_anything_is_read(folder):
    write_files(folder, train_py="1")
    (folder / "outputs").mkdir()
    for name in ("one.bin", "two.bin"):
        with (folder / "outputs" / name).open("wb") as file:
            file.truncate(80 * 2**20)
    with pytest.raises(InputError) as error:
        pack(find_contents(folder))
    assert "160M in 3 files, but Ray accepts less than 100M. Largest: outputs/ 160M, train.py 1B" in str(error.value)
    assert f"`/outputs/` in {folder}/.rayignore" in str(error.value)


def test_a_file_that_grows_without_end_is_an_error(folder, monkeypatch):
    write_files(folder, a_log="x")
    contents = find_contents(folder)
    with (folder / "a.log").open("wb") as file:
        file.truncate(packing.MAX_PACKAGE_BYTES + 1)
    with pytest.raises(InputError, match="grew beyond 100M while it was packed"):
        pack(contents)


def test_packing_reports_its_progress_and_stops_when_its_caller_is_gone(folder):
    write_files(folder, a_py="1", b_py="2")
    progress = []
    pack(find_contents(folder), lambda *far: progress.append(far))
    assert progress == [(0, 2), (1, 2)]
    with pytest.raises(StoppedError):
        find_contents(folder, stopped=lambda: True)
    with pytest.raises(StoppedError):
        pack(find_contents(folder), stopped=lambda: True)


def test_no_folder_is_no_working_dir(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        find_contents(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is not a folder"):
        find_contents(tmp_path / "file")
    with pytest.raises(InputError, match="neither a folder nor a zip file"):
        pack_archive(tmp_path / "file")


def test_a_zip_file_is_uploaded_unchanged(tmp_path):
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        archive.writestr("a.py", "1")
    package = pack_archive(tmp_path / "job.zip")
    assert b"".join(package.pieces()) == (tmp_path / "job.zip").read_bytes()
    assert package.size == (tmp_path / "job.zip").stat().st_size
