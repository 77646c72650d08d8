"""Folders of torchrun's logs, and their size."""

from __future__ import annotations

from cockpit.probe.look import sizes
from cockpit.probe.look.sizes import Size, added_size, disk_of, torchrun_folders


def test_only_folders_of_that_name_are_measured(tmp_path, monkeypatch):
    for name in ("torchelastic_00000001", "torchelastic_00000000", "torchelastic_logs", "vllm-00000000"):
        (tmp_path / name).mkdir()
    (tmp_path / "torchelastic_00000002").write_text("x")
    (tmp_path / "torchelastic_00000003").symlink_to(tmp_path)
    assert torchrun_folders(str(tmp_path)) == (f"{tmp_path}/torchelastic_00000000", f"{tmp_path}/torchelastic_00000001")
    monkeypatch.setattr(sizes, "MOST_TORCHRUN_FOLDERS", 1)
    assert torchrun_folders(str(tmp_path)) == (f"{tmp_path}/torchelastic_00000000",)
    assert torchrun_folders(str(tmp_path / "absent")) == ()


def test_a_sum_is_known_once_all_are():
    assert added_size(("a", "b"), {"a": Size(5, ()), "b": Size(7, ()), "c": Size(9, ())}) == 12
    assert added_size(("a", "b"), {"a": Size(5, ())}) is None
    assert added_size(("a",), {"a": Size(None, ())}) is None
    assert added_size((), {}) == 0


def test_the_disk_is_that_on_which_the_place_is(tmp_path):
    (tmp_path / "ray").mkdir()
    assert disk_of([{"path": "/proc"}, {"path": f"{tmp_path}/ray"}], str(tmp_path)) == f"{tmp_path}/ray"
    assert disk_of([{"path": "/proc"}], str(tmp_path)) is None
    assert disk_of([{"path": f"{tmp_path}/gone"}], str(tmp_path)) is None
