from __future__ import annotations

import pytest
from msgspec.structs import replace

from cockpit.report.incident.gather import make_account
from cockpit.report.incident.markdown import MAX_LINES, account_markdown, who_markdown
from tests.report.incident.recordings import night

HOSTILE = "![x](http://evil/p.png) <img src=x> `a` | b # *c* [d](e) _f_"


@pytest.fixture(scope="module")
def account():
    return make_account(night())


def test_the_report_has_events_times_and_remedies(account):
    text = account_markdown(account)
    assert "**CRITICAL** 3 of 4 GPUs of job ppo-7b have been at 100% with at most 120 W for 5m: they wait for other ranks" in text
    assert "  → compare the stacks of its ranks; then stop the job and start it from its last checkpoint" in text
    assert "kill-orphans: ended 4 processes on node1 (by ann on head)" in text
    assert "RuntimeError: NCCL timed out" in text
    assert "1.3 one rank or a few behind the others" in text


def test_any_report_fits_into_a_chat(account):
    many = {name: getattr(account, name) * 50 for name in ("findings", "actions", "jobs", "faults", "gaps", "damage", "usage", "users")}
    lines = account_markdown(replace(account, **many)).splitlines()
    assert len(lines) <= MAX_LINES
    assert sum("`cockpit report -o FILE.html` has all" in line for line in lines) == 7


def test_the_worst_findings_are_kept_in_their_order(account):
    infos = tuple(replace(one, level="info", text="small") for one in account.findings * 9)
    text = account_markdown(replace(account, findings=(*infos, *account.findings)))
    assert text.count("**CRITICAL**") == 3


def test_open_findings_come_first_with_their_evidence(account):
    still = replace(account.findings[0], text="still here", end=None, evidence=("pid 77 python train.py",))
    lines = account_markdown(replace(account, findings=(*account.findings, still))).splitlines()
    first = lines[lines.index("## Open at the end") + 1 : lines.index("## Cleared")]
    assert "still here" in first[0]
    assert first[-1] == "  - pid 77 python train.py"
    assert f"{sum(one.level == 'critical' for one in account.findings) + 1} critical findings (1 open at the end)" in "\n".join(lines)


def test_a_warning_is_kept_if_there_is_room(account):
    assert "/tmp on w9 is at 91 %" in account_markdown(account)


def test_foreign_text_is_escaped(account):
    jobs = tuple(replace(job, id=HOSTILE) for job in account.jobs)
    usage = tuple(replace(row, name=HOSTILE) for row in account.usage)
    text = account_markdown(replace(account, jobs=jobs, usage=usage, findings=(replace(account.findings[0], text=HOSTILE),)))
    assert "\\!" not in text
    assert "!\\[x\\](http://evil/p.png) \\<img src=x\\> \\`a\\` \\| b \\# \\*c\\* \\[d\\](e) \\_f\\_" in text
    assert HOSTILE not in text


def test_a_long_text_is_cut(account):
    text = account_markdown(replace(account, findings=(replace(account.findings[0], text="x" * 1000),)))
    assert max(map(len, text.splitlines())) < 500


def test_a_report_without_findings_says_so(account):
    text = account_markdown(replace(account, findings=()))
    assert "## Open at the end: nothing" in text
    assert "## Cleared: nothing" in text


def test_the_usage_lists_all_jobs_and_users(account):
    lines = who_markdown(replace(account, usage=account.usage * 20)).splitlines()
    assert sum(line.startswith("| ppo-7b") for line in lines) == 20
    assert any(line.startswith("| train |") for line in lines)
    assert "## Open" not in "\n".join(lines)
