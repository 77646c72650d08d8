"""Addresses are normalized, and the right one of several Ray clusters is followed."""

from __future__ import annotations

import pytest

from cockpit.config.address import DEFAULT_ADDRESS, Address, Resolved, dashboard_url, explain_choices, resolve_address
from cockpit.config.document import InputError
from cockpit.model import Session


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:8265", "http://127.0.0.1:8265"),
        (" head ", "http://head:8265"),
        ("http://head", "http://head"),
        ("https://ray.example.com/clusters/a/", "https://ray.example.com/clusters/a"),
        ("http://127.0.0.1:8265/#/overview", "http://127.0.0.1:8265"),
        ("http://head:8265/?x=1", "http://head:8265"),
        ("[::1]:8265", "http://[::1]:8265"),
        ("http://[fe80::1]:80", "http://[fe80::1]:80"),
    ],
)
def test_an_address_is_put_into_one_form(text, url):
    assert dashboard_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "http://", "ftp://head", "head:0", "head:65536", "head:port", "a b", "http://he\x1bad", "http://h/\x1b]0", "::1", "/tmp/x"]
)
def test_nonsense_is_no_address(text):
    with pytest.raises(InputError, match="is not a dashboard address"):
        dashboard_url(text)


@pytest.mark.parametrize(
    "text", ["http://me:hunter2@head:8265", "me:hunter2@head", "https://hunter2@head/x", "http://me:hunter2/x@head", "me:hunter2?x#@head"]
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text):
    with pytest.raises(InputError) as caught:
        dashboard_url(text)
    assert "hunter2" not in str(caught.value)
    assert "RAY_AUTH_TOKEN" in str(caught.value)


def session(
    name: str,
    *,
    live: bool | None = True,
    dashboard: str | None = "http://127.0.0.1:8265",
    trusted: bool = True,
    owner: str | None = None,
) -> Session:
    return Session(host="here", name=name, path=f"/tmp/ray/{name}", live=live, dashboard=dashboard, trusted=trusted, owner=owner)


BOTH = {"RAY_API_SERVER_ADDRESS": "http://a:1", "RAY_ADDRESS": "http://b:2"}


@pytest.mark.parametrize(
    ("given", "env", "sessions", "found"),
    [
        (
            Address("http://c:3", "COCKPIT_ADDRESS", given=True),
            BOTH,
            [session("s")],
            [Address("http://c:3", "COCKPIT_ADDRESS", given=True)],
        ),
        (None, BOTH, [session("s")], [Address("http://a:1", "RAY_API_SERVER_ADDRESS", given=True)]),
        (None, {"RAY_ADDRESS": "http://b:2/"}, [session("s")], [Address("http://b:2", "RAY_ADDRESS", given=True)]),
        (None, {"RAY_ADDRESS": "10.0.0.1:6379"}, [session("s")], [Address("http://127.0.0.1:8265", "s")]),
        (None, {"RAY_ADDRESS": "ray://head:10001"}, [], [Address(DEFAULT_ADDRESS, "default")]),
        (
            None,
            {},
            [session("s", live=False), session("t", live=None), session("u", dashboard=None)],
            [Address(DEFAULT_ADDRESS, "default")],
        ),
        (
            None,
            {},
            [session("s"), session("t", dashboard="http://127.0.0.1:8266")],
            [Address("http://127.0.0.1:8265", "s"), Address("http://127.0.0.1:8266", "t")],
        ),
    ],
)
def test_the_dashboard_is_the_first_that_is_named(given, env, sessions, found):
    resolved = resolve_address(given, env, sessions)
    assert resolved == (Resolved(found[0]) if len(found) == 1 else Resolved(None, tuple(found)))


def test_another_users_ray_is_never_followed_by_itself_nor_asked_at_the_usual_address():
    theirs = Address("http://127.0.0.1:8265", "s", owner="evil")
    sentence = "only Ray sessions of other users or of other Slurm jobs run on this host; name one with --address:"
    assert f"{sentence}\n  http://127.0.0.1:8265  s of evil" in explain_choices([theirs])
    ours = session("t", dashboard="http://127.0.0.1:8266")
    assert resolve_address(None, {}, [session("s", trusted=False), ours]) == Resolved(Address("http://127.0.0.1:8266", "t"))
    (choice,) = resolve_address(None, {}, [], lambda port: "another user" if port == 8265 else None).choices
    assert (choice.url, choice.owner) == (DEFAULT_ADDRESS, "another user")
    assert resolve_address(None, {}, [], lambda port: None).address == Address(DEFAULT_ADDRESS, "default")


def test_a_variable_of_ray_that_holds_nonsense_is_named():
    with pytest.raises(InputError, match=r"^RAY_API_SERVER_ADDRESS: ray://h:1 is for Ray's client"):
        resolve_address(None, {"RAY_API_SERVER_ADDRESS": "ray://h:1"}, [])


def test_a_ray_in_another_slurm_job_of_ours_is_not_followed_by_itself():
    sessions = [session("s"), session("t", dashboard="http://127.0.0.1:8266")]
    assert resolve_address(None, {}, sessions, jobs={"s": "41"}) == Resolved(Address("http://127.0.0.1:8266", "t"))
    resolved = resolve_address(None, {}, sessions[:1], jobs={"s": "41"})
    assert resolved == Resolved(None, (Address("http://127.0.0.1:8265", "s", owner="Slurm job 41"),))
    assert "  http://127.0.0.1:8265  s of Slurm job 41" in explain_choices(resolved.choices)


def test_the_head_of_our_worker_is_a_choice_beside_another_jobs_dashboard():
    worker, other = session("s", dashboard=None), session("t", dashboard="http://127.0.0.1:8266")
    resolved = resolve_address(None, {}, [worker, other], jobs={"t": "41"}, heads={"s": "fd00::9"})
    theirs = Address("http://127.0.0.1:8266", "t", owner="Slurm job 41")
    assert resolved.choices == (Address("http://[fd00::9]:8265", "s"), theirs)
    alone = resolve_address(None, {}, [worker], lambda _: "Slurm job 41", heads={"s": "c1"})
    assert [one.url for one in alone.choices] == ["http://c1:8265", DEFAULT_ADDRESS]
    assert resolve_address(None, {}, [worker], heads={"s": "c1"}).address == Address(DEFAULT_ADDRESS, "default")
