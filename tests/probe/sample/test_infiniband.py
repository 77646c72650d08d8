"""Tests ports of InfiniBand and RoCE devices, in trees as in Linux' Documentation/ABI/stable/sysfs-class-infiniband."""

from __future__ import annotations

from pathlib import Path

from cockpit.probe.sample.infiniband import MAX_PORTS, read_ports

ACTIVE = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}
COUNTERS = {"link_downed": 1, "symbol_error": 7, "port_rcv_errors": 0, "port_rcv_packets": 99, "port_xmit_packets": 98}


def lay_port(sys: Path, device: str = "mlx5_0", port: str = "1", counters: dict[str, object] = COUNTERS, **files: str) -> Path:
    """Writes a port. As in the kernel's tree, the class has a link to the device."""
    real = sys / "devices" / device
    folder = real / "ports" / port
    (folder / "counters").mkdir(parents=True)
    for name, text in {**ACTIVE, **files}.items():
        (folder / name).write_text(f"{text}\n")
    for name, value in counters.items():
        (folder / "counters" / name).write_text(f"{value}\n")
    link = sys / "class" / "infiniband" / device
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(real)
    return folder


def test_a_port_has_its_state_and_the_counters_of_its_link(tmp_path):
    lay_port(tmp_path)
    assert read_ports(str(tmp_path)) == [
        {
            "device": "mlx5_0", "port": 1, "layer": "InfiniBand", "state": "ACTIVE", "phys_state": "LinkUp", "rate": "400 Gb/sec (4X NDR)",
            "used": True, "errors": {"link_downed": 1, "symbol_error": 7, "port_rcv_errors": 0},
        }
    ]  # fmt: skip


def test_a_port_without_traffic_is_unused(tmp_path):
    lay_port(tmp_path, counters=dict.fromkeys(COUNTERS, 0), state="1: DOWN", phys_state="2: Polling")
    (port,) = read_ports(str(tmp_path))
    assert (port["state"], port["phys_state"], port["used"]) == ("DOWN", "Polling", False)


def test_files_that_a_driver_lacks_or_writes_differently_are_unknown(tmp_path):
    folder = lay_port(tmp_path, counters={"symbol_error": "N/A (no PMA)"}, state="weird")
    for name in ("phys_state", "rate", "link_layer"):
        (folder / name).unlink()
    (port,) = read_ports(str(tmp_path))
    assert {port[name] for name in ("state", "phys_state", "rate", "layer", "used")} == {None}
    assert port["errors"] == {}


def test_a_host_without_such_devices_has_no_ports_and_no_more_than_the_limit_are_read(tmp_path):
    assert read_ports(str(tmp_path)) == []
    for number in range(MAX_PORTS + 3):
        lay_port(tmp_path, f"mlx5_{number}", counters={})
    assert len(read_ports(str(tmp_path))) == MAX_PORTS
