"""Holds the CSS of a report for light and dark screens, phones and paper; every text has a contrast of at least 4.5:1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIGHT: Final[Mapping[str, str]] = {
    "ground": "#ffffff", "raised": "#f4f5f7", "text": "#1b1f24", "dim": "#545b64", "rule": "#c9ced6",
    "critical": "#b3121d", "warning": "#8a5300", "info": "#0b5cad", "accent": "#0b5cad",
    "busy": "#1a7f4b", "idle": "#d98e1f", "unknown": "#9aa3ad", "dead": "#b3121d", "line": "#1b1f24",
    "placement": "#8250df", "loading": "#3d8fd1", "rank": "#c2410c", "turn": "#c9a227", "unused": "#b08968", "unseen": "#e0b25a",
    "rollout": "#2f6fb3", "scoring": "#0f8b8d", "training": "#5f8d3b", "sync": "#a03e99", "checkpoint": "#7a6a53", "evaluation": "#c06c84",
    "waiting": "#8c7a3d",
}  # fmt: skip
DARK: Final[Mapping[str, str]] = {
    "ground": "#14171b", "raised": "#1e2329", "text": "#e6e9ed", "dim": "#a3acb7", "rule": "#3a424c",
    "critical": "#ff8a80", "warning": "#f0b44c", "info": "#7ab8ff", "accent": "#7ab8ff",
    "busy": "#45c486", "idle": "#d98e1f", "unknown": "#6b7580", "dead": "#ff6b60", "line": "#e6e9ed",
    "placement": "#b794f6", "loading": "#5aa9e6", "rank": "#f4804f", "turn": "#d6b84a", "unused": "#a98d72", "unseen": "#b98f3f",
    "rollout": "#6ba4e0", "scoring": "#4fc3c5", "training": "#9ccc65", "sync": "#d17fca", "checkpoint": "#b5a48a", "evaluation": "#e59bb0",
    "waiting": "#c2ae63",
}  # fmt: skip


def _variables(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


_FILLS: Final = (
    "busy", "idle", "unknown", "dead", "placement", "loading", "rank", "turn", "unused", "unseen", "rollout", "scoring",
    "training", "sync", "checkpoint", "evaluation", "waiting", "critical", "warning", "info",
)  # fmt: skip
_RULES: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;margin:0 0 .3rem}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--rule)}
h3{font-size:1rem;margin:0;font-weight:600;overflow-wrap:anywhere}
p{margin:.3rem 0;overflow-wrap:anywhere}
header p,.when,.legend,.none,footer,caption{color:var(--dim)}
header p.summary{color:var(--text);font-weight:600}
article{background:var(--raised);border-radius:6px;padding:.7rem .9rem;margin:.6rem 0}
article ul{margin:.3rem 0;padding-left:1.2rem}
code{font:13px/1.45 ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
section>h3{margin:1rem 0 0}
.level{text-transform:uppercase;font-size:.8rem;letter-spacing:.04em}
.level.critical{color:var(--critical)}.level.warning{color:var(--warning)}.level.info{color:var(--info)}
.scroll{overflow-x:auto;margin:.5rem 0}.chart{margin:.5rem 0}
.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:14px}
caption{text-align:left;padding:.2rem 0}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--rule)}
tbody th{font-weight:600;overflow-wrap:anywhere;min-width:7rem}
td{min-width:4rem}td code{display:block;min-width:14rem}
.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.chart svg{display:block;width:100%;height:auto}.narrow{display:none}
svg text{fill:var(--text);font-size:13px}svg text.tick{fill:var(--dim);font-size:12px}
.grid{stroke:var(--rule)}.hatch{fill:var(--dim)}.gap{opacity:.45}
.line{fill:none;stroke:var(--line);stroke-width:2}.kill{stroke:var(--critical);stroke-width:2;stroke-dasharray:6 4}
.bar.job{fill:var(--busy)}.bar.failed{fill:var(--critical)}.bar.act{fill:var(--accent)}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;vertical-align:-1px;margin-left:.8em}
.key.line{background:var(--line);height:3px;vertical-align:4px}
.share{border-radius:2px;max-width:none}
@media screen and (max-width:760px){.wide{display:none}.narrow{display:block}}
@media print{
body{font-size:10pt}main{max-width:none;padding:0}
.scroll{overflow:visible}
article,tr,.chart{break-inside:avoid}h2,h3{break-after:avoid}thead{display:table-header-group}
table{font-size:8pt}th,td{min-width:0;padding-right:.3rem}td code{min-width:0;font-size:7.5pt}.share{width:90px}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
CSS: Final = (
    f":root{{color-scheme:light dark;{_variables(LIGHT)}}}"
    f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    + _RULES.replace("\n", "")
    + "".join(f".bar.{name},.area.{name},.part.{name}{{fill:var(--{name})}}.key.{name}{{background:var(--{name})}}" for name in _FILLS)
)
