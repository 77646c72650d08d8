"""One picture of several screens shows each for the same time, one after the other."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from bench.moving_picture import SECONDS, moving_picture
from bench.screenshots import FOLDER, MAX_MOVING_BYTES, WALK

SCREENS = [f'<svg viewBox="0 0 10 20" xmlns="http://www.w3.org/2000/svg"><text>{number}</text></svg>' for number in range(4)]


def test_it_is_one_picture_of_their_size():
    root = ET.fromstring(moving_picture(SCREENS))
    assert root.get("viewBox") == "0 0 10 20"
    assert [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")] == ["0", "1", "2", "3"]


def test_at_every_moment_exactly_one_screen_is_seen():
    picture = moving_picture(SCREENS)
    begins = [float(rule) for rule in re.findall(r"([\d.]+)% \{ visibility: visible \}", picture)]
    ends = [float(rule) for rule in re.findall(r"visible \} ([\d.]+)% \{ visibility: hidden \}", picture)]
    assert begins == [0, 25, 50, 75]
    assert ends == [25, 50, 75, 100]
    assert picture.count(f"{4 * SECONDS:g}s step-end infinite") == 4


def test_who_wants_no_motion_sees_the_first():
    still = moving_picture(SCREENS).split("@media")[0]
    assert "#frame0 { visibility: visible }" in still
    assert "#frame1" not in still


def test_the_picture_of_the_demo_is_whole_and_small():
    picture = (FOLDER / "demo.svg").read_text()
    assert len(picture.encode()) < MAX_MOVING_BYTES
    assert picture.count('class="frame"') == len(WALK)
    assert "<script" not in picture
