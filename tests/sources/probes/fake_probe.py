"""A fake probe: it sends the probe's messages, and its last argument selects a misbehaviour."""

import json
import os
import signal
import sys
import time

mode = sys.argv[-1].split("-")[0]
if "--read" in sys.argv:
    sys.stdin.read()
HELLO = json.dumps({"hello": 1, "host": "fake", "addresses": ["10.0.0.9"], "pid": os.getpid()}) + "\n"


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def sample(**more: object) -> str:
    return json.dumps({"taken": time.time(), "cpu": 12.5, "cpus": 4, "nodes": [f"{os.getpid()}"], **more}) + "\n"


def well(**more: object) -> None:
    while True:
        say(sample(**more))
        time.sleep(0.05)


if mode == "silent":
    time.sleep(3600)
if mode == "refused":
    sys.exit("ssh: connect to host 10.0.0.2 port 22: Connection refused")
if mode == "nologin":
    say("This account is currently not available.\n")
    sys.exit(1)
if mode == "nopython":
    sys.stderr.write("bash: line 1: python3: command not found\n")
    sys.exit(127)
if mode == "chatty":  # more on stderr than a pipe holds
    sys.stderr.write("warning: noise\n" * 100_000 + "Permission denied (publickey).\n")
    sys.exit(255)
if mode == "banner":
    say("\n*** Welcome to w1 ***\n{not json}\nLast login: today\n\xff\n" + HELLO)  # one read returns both, and no sample
    time.sleep(0.3)
else:
    say(HELLO)
if mode == "dies":
    say(sample())
    os.kill(os.getpid(), signal.SIGKILL)
if mode == "stops":
    say(sample())
    os.kill(os.getpid(), signal.SIGSTOP)
if mode == "closes":  # closes its stdout and keeps running
    say(sample())
    os.close(1)
    time.sleep(3600)
if mode == "calm":
    while True:
        say(sample())
        time.sleep(1)
if mode == "leaves":
    say(sample())
    sys.exit(0)
if mode == "huge":
    say("x" * (33 << 20) + "\n")
if mode == "halves":
    while True:
        text = sample()
        say(text[:20])
        time.sleep(0.03)
        say(text[20:])
if mode == "floods":
    while True:
        say(sample(disks=[{"path": "/x" * 500}]) * 200)
if mode == "odd":
    well(memory_users=[{"pid": 1, "rss": 1, "command": "half \udc80 surrogate"}], cpu=float("nan"))
if mode == "broken":
    say('{"taken": 1.0, "cpu": "much"}\n')
    time.sleep(3600)
if mode == "skewed":
    well(
        taken=time.time() - 1000,
        processes=[{"pid": 7, "started": time.time() - 1100, "command": "python train.py --api-key=abcdef", "kind": "worker"}],
        sessions=[{"name": "s", "path": "/tmp/ray/s", "started": time.time() - 1100}],
        faults=[{"source": "nvml", "text": "NVML has not answered for 12 s", "since": time.time() - 1012}],
    )
if mode == "set":  # its wall clock is set repeatedly, an hour forwards and backwards
    begun = time.clock_gettime(time.CLOCK_BOOTTIME)
    for number in range(100_000):
        up, wall = time.clock_gettime(time.CLOCK_BOOTTIME), time.time() + (0, 3600, -3600)[number // 3 % 3]
        say(sample(taken=wall, up=up, processes=[{"pid": 7, "started": wall - (up - begun) - 100, "kind": "worker"}]))
        time.sleep(0.05)
if "log" in sys.argv:
    for text in ("one\n", "two\n"):
        say(json.dumps({"text": text}) + "\n")
    if "--follow" not in sys.argv:
        say(json.dumps({"text": "", "end": True}) + "\n")
        time.sleep(3600)
    if "dies" in sys.argv:
        sys.exit("no space left on device")
    time.sleep(3600)
if "environ" in sys.argv:
    say(json.dumps({"pid": 7, "environ": {"A": "1"}}) + "\n")
    sys.exit(0)
well()
