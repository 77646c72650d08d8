"""The files that a process in a container sees: links are followed below its root."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cockpit.probe.sample.roots import list_folder, root_of
from tests.probe.process_tables import process


def test_a_folder_below_the_root_is_listed_also_through_a_link_up_to_a_number_of_names(tmp_path):
    (tmp_path / "real").mkdir()
    for name in "abc":
        (tmp_path / "real" / name).touch()
    (tmp_path / "link").symlink_to("/real")
    assert sorted(list_folder(str(tmp_path), "/link", 9)) == ["a", "b", "c"]
    assert len(list_folder(str(tmp_path), "/link", 2)) == 2


def test_an_unreadable_folder_is_an_error(tmp_path):
    (tmp_path / "loop").symlink_to("/loop")
    for path in ("/none", "/loop"):
        with pytest.raises(OSError, match=r".+"):
            list_folder(str(tmp_path), path, 9)


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a process another root")
def test_a_process_whose_proc_is_a_link_has_its_own_root(tmp_path):
    (tmp_path / "proc").symlink_to("/nowhere")
    program = f"import os, time; os.chroot({str(tmp_path)!r}); print('up', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == b"up\n"
        try:
            assert root_of(process(child.pid)) == f"/proc/{child.pid}/root"
        finally:
            child.kill()
