"""The bytes of each user in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from cockpit.probe.sample.sizes import DEEPEST_SHM_FOLDER, MAX_USERS, measure_owners, read_shared_memory, shm_users

BLOCK = 4096


def write(path: Path, blocks: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * BLOCK * blocks)
    return path


def test_files_count_once_for_their_owner_and_links_are_not_followed(tmp_path):
    outside = write(tmp_path / "outside", 100)
    place = tmp_path / "shm"
    file = write(place / "folder" / "nccl-1", 2)
    write(place / "sem.mp", 1)
    os.link(file, place / "again")
    (place / "link").symlink_to(outside)
    (place / "out").symlink_to(tmp_path)
    os.mkfifo(place / "pipe")
    assert measure_owners(str(place)) == {os.getuid(): 3 * BLOCK}


def test_a_sparse_file_takes_no_space(tmp_path):
    with (tmp_path / "plasma").open("wb") as file:
        file.truncate(1 << 30)
    assert measure_owners(str(tmp_path)) == {os.getuid(): 0}


def test_too_many_files_have_no_owners_and_too_deep_folders_are_not_counted(tmp_path):
    for number in range(5):
        write(tmp_path / str(number), 1)
    assert measure_owners(str(tmp_path), 4) is None
    assert measure_owners(str(tmp_path), 5) == {os.getuid(): 5 * BLOCK}
    write(tmp_path.joinpath(*"x" * (DEEPEST_SHM_FOLDER + 1), "deep"), 1)
    assert measure_owners(str(tmp_path)) == {os.getuid(): 5 * BLOCK}


def test_the_amount_is_known_even_if_the_files_can_not_be_read(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    found = read_shared_memory(str(tmp_path / "link"))
    assert (found.owners, bool(found.amount["total"])) == (None, True)


def test_the_largest_users_are_reported_always_in_the_same_order():
    told = shm_users({uid: 1000 - uid for uid in range(30, 0, -1)}, lambda uid: f"u{uid}")
    assert [one["user"] for one in told] == [f"u{uid}" for uid in range(1, MAX_USERS + 1)]
    assert shm_users(None, str) is None
    assert shm_users({}, str) == []
