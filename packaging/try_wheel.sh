#!/usr/bin/env bash
# Tries a wheel in a fresh environment of one Python: try_wheel.sh PYTHON WHEEL. The demo is part of it where Ray has a wheel for that Python.
set -euo pipefail
python=$1
wheel=$(realpath "$2")

# Outside of the checkout: nothing is found there by accident.
fresh=$(mktemp -d "${TMPDIR:-/tmp}/try-wheel.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
cd "$fresh"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
export XDG_CONFIG_HOME=$fresh/config XDG_STATE_HOME=$fresh/state

"$python" -m venv env
bin=$fresh/env/bin
"$bin/python" -m pip install "$wheel"
"$bin/python" -m pip check >/dev/null

# What is in it: themes, the man page under the name that is ours alone, no tests.
test -f env/share/man/man1/ray-cockpit.1
test ! -e env/share/man/man1/cockpit.1
"$bin/python" - <<'PYTHON'
from importlib.metadata import files
paths = [str(path) for path in files("ray-cockpit")]
assert sum(path.startswith("cockpit/themes/") for path in paths) > 5, "themes are missing"
assert any(path == "cockpit/demo/nvml_sim.c" for path in paths), "a file of the demo is missing"
assert not [path for path in paths if path.startswith(("tests/", "bench/", "manual/", "docs/"))], "it has more than the program"
PYTHON

# Both names, and commands that need no cluster.
for name in cockpit ray-cockpit; do
    version=$("$bin/$name" --version)
    case "$(basename "$wheel")" in
        ray_cockpit-"${version##* }"-*) ;;
        *) echo "$name --version prints: $version" >&2; exit 1 ;;
    esac
done
_RAY_COCKPIT_COMPLETE=bash_source "$bin/ray-cockpit" | bash -n
for schema in status check report preset config; do
    "$bin/cockpit" schema "$schema" | "$bin/python" -m json.tool >/dev/null
done
"$bin/cockpit" config init >/dev/null
"$bin/cockpit" --theme daylight config print >/dev/null
"$bin/cockpit" presets --copy verl-ppo >/dev/null
"$bin/cockpit" presets >/dev/null
installed="$("$bin/python" -V), $(find env/lib -maxdepth 4 -name '*.dist-info' | wc -l) packages"

if ! "$bin/python" -m pip download --no-deps --only-binary :all: --dest ray ray >/dev/null 2>&1; then
    echo "$python ($installed): installed and tried; without the demo, Ray has no wheel for it"
    exit
fi
"$bin/python" -m pip install "$wheel[ray]"
code=0
"$bin/cockpit" demo --seconds 20 </dev/null >demo.txt 2>&1 || code=$?
ray=$("$bin/python" -c 'import importlib.metadata as metadata; print(metadata.version("ray"))')
if [ "$code" != 0 ]; then
    cat demo.txt
    echo "$python ($installed): the demo on Ray $ray ended with $code" >&2
    exit 1
fi
[ "$(grep -c '^Node .* of 8, GPU memory .* of 640G' demo.txt)" = 2 ] || { cat demo.txt; echo "$python: two nodes of 8 GPUs are not there" >&2; exit 1; }
echo "$python ($installed): installed and tried, with 20 seconds of the demo on Ray $ray"
