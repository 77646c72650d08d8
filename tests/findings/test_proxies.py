"""HTTP proxies that Ray's commands and jobs would use."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.findings.proxies import AskedHosts, proxies_of_raylets, proxy_of_shell
from cockpit.model import Cluster, Fault, HttpProxy
from tests.findings.detection import detect, only
from tests.findings.raylets import SESSION, cluster, place
from tests.world import NOW, process

SHELL, RAYLETS = (proxy_of_shell,), (proxies_of_raylets,)
PROXY = HttpProxy("http_proxy", "proxy.corp:3128", "localhost,127.0.0.1")


def in_shell(proxy, local=True, **more):
    one, host = place(1, local=local)
    return cluster((one, replace(host, proxy=proxy)), **more)


def test_a_proxy_of_the_shell_that_would_get_the_dashboards_requests_is_reported():
    found = only(detect(in_shell(PROXY), detectors=SHELL), "proxy-in-shell")
    assert found.text == (
        "http_proxy is proxy.corp:3128 in the environment of your shell on node1, and no_proxy does not name 10.0.0.1: "
        "`ray job submit`, `ray list` and `ray logs` ask that proxy, not the dashboard"
    )
    assert (found.level, found.evidence) == ("info", ("http_proxy: proxy.corp:3128", "no_proxy: localhost,127.0.0.1"))
    assert found.remedy
    assert found.remedy.text == 'in that shell: `export no_proxy="${no_proxy:-$NO_PROXY},10.0.0.1"`'
    unreadable = only(detect(in_shell(HttpProxy("ALL_PROXY")), detectors=SHELL), "proxy-in-shell")
    assert unreadable.text.startswith("ALL_PROXY is set in the "), "without its value"


@pytest.mark.parametrize(("listens_on", "asked"), [("0.0.0.0", True), ("10.0.0.1", True), ("127.0.0.1", False), ("localhost", False)])
def test_the_heads_address_for_rays_commands_counts_too(listens_on, asked):
    command = f"/env/bin/python -u /env/ray/dashboard/dashboard.py --host={listens_on} --port=8265 --port-retries=50"
    followed = Cluster("http://127.0.0.1:8265", "2.60.0", SESSION, reachable=True)
    dashboard = process(77, kind="ray", command=command, session=SESSION)
    reported = detect(in_shell(PROXY, processes=(dashboard,), cluster=followed), detectors=SHELL)
    assert [one.text for one in reported if "does not name 10.0.0.1:" in one.text] == [one.text for one in reported]
    assert bool(reported) == asked


@pytest.mark.parametrize(
    "fine",
    [
        in_shell(None),
        in_shell(PROXY, local=False),
        in_shell(replace(PROXY, exceptions="10.0.0.0/8")),
        in_shell(PROXY, cluster=Cluster("http://10.0.0.1:8265", reachable=False)),
        in_shell(PROXY, cluster=Cluster("https://10.0.0.1:8265", reachable=True)),
        in_shell(PROXY, cluster=Cluster("http://[", reachable=True)),
        in_shell(PROXY, faults=(Fault("ray.identity", "silent", NOW),)),
    ],
)
def test_a_shell_without_a_used_proxy_is_fine(fine):
    assert detect(fine, detectors=SHELL) == ()


def test_proxies_of_raylets_are_one_finding_for_all_nodes():
    found = only(detect(cluster(place(1), place(2, proxy=PROXY), place(3, proxy=PROXY)), detectors=RAYLETS), "proxy-of-raylets")
    assert found.text == (
        "http_proxy is proxy.corp:3128 in the environment of raylets on node2, node3, and no_proxy does not name 3 of 3 addresses of nodes "
        "(10.0.0.1, 10.0.0.2, 10.0.0.3): a job that asks servers of another node by HTTP, or runs `ray job submit`, `ray list` and "
        "`ray logs`, asks that proxy"
    )
    assert (found.level, found.about) == ("info", (place(2)[0].key, place(3)[0].key))
    assert found.evidence[1] == "no_proxy on node2: localhost,127.0.0.1"
    assert found.remedy
    assert found.remedy.text.endswith('`export no_proxy="${no_proxy:-$NO_PROXY},10.0.0.1,10.0.0.2,10.0.0.3"`')


def test_only_addresses_without_an_exception_are_named():
    half = replace(PROXY, exceptions="10.0.0.1")
    assert (
        "does not name 1 of 2 addresses of nodes (10.0.0.2)" in detect(cluster(place(1), place(2, proxy=half)), detectors=RAYLETS)[0].text
    )
    assert detect(cluster(place(1), place(2, proxy=replace(PROXY, exceptions="10.0.0.0/24"))), detectors=RAYLETS) == ()
    assert detect(cluster(place(1), place(2)), detectors=RAYLETS) == ()


def test_a_hosts_name_is_no_command():
    evil = replace(place(1)[0], ip='$(reboot)";x')
    found = detect(cluster((evil, place(1)[1]), place(2, proxy=PROXY)), detectors=RAYLETS)[0]
    assert found.remedy
    assert "reboot" not in found.remedy.text


@pytest.mark.parametrize("host", ["10.0.0.1", "127.0.0.1", "head", "head.cluster.local", "HEAD.cluster.local", "10.0.0.10"])
@pytest.mark.parametrize(
    "exceptions",
    ["", "*", "head", ".cluster.local", "cluster.local", "10.0.0.0/8", "10.0.0.1", " 10.0.0.1 , x", "10.0.0", "0.1", "localhost", "10.*",
     "head.cluster.local:8265", "x,*", "*,*", "10.0.0.1/32", ",,"],
)  # fmt: skip
def test_no_proxy_is_read_as_rays_library_reads_it(monkeypatch, host, exceptions):
    requests = pytest.importorskip("requests", reason="Ray brings it")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    goes_direct = requests.utils.should_bypass_proxies(f"http://{host}:8265/", exceptions)
    assert AskedHosts([host]).not_excepted(exceptions) == ([] if goes_direct else [host])


def test_an_overlong_host_name_costs_nothing():
    name = "x." * 1_000_000
    assert AskedHosts([name]).not_excepted("x.") == [name]
