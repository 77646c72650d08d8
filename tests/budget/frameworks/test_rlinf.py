"""RLinf asks Ray for no GPU, and that is said instead of a number."""

from __future__ import annotations

from tests.budget.frameworks.commands import read

FILES = {
    "examples/main_grpo.py": "import hydra\nfrom rlinf.scheduler import Cluster\n",
    "examples/config/math/a.yaml": "cluster: {num_nodes: 16}\n",
}


def test_there_is_no_number_and_the_nodes_are_named():
    budget = read("examples/main_grpo.py", "--config-path examples/config/math/ --config-name a", FILES)
    assert (budget.framework, budget.gpus) == ("RLinf", None)
    assert budget.unread == ("RLinf asks Ray for no GPU: it uses all GPUs of 16 nodes, and Ray shows them as free",)
    assert "its nodes" in read("examples/main_grpo.py", "", FILES).unread[0]
