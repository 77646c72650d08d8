"""How each command that cockpit tells people to type is checked: typed by a test, only parsed, or neither, and why."""

from __future__ import annotations

from collections.abc import Mapping

LAB = "lab/test_remedies.py"
TYPED: Mapping[str, tuple[str, ...]] = {
    f"{LAB}::test_a_stopped_part_of_ray_continues": ("kill -CONT …",),
    f"{LAB}::test_gpus_withheld_from_a_raylet_or_missing": ("--num-gpus=…", "CUDA_VISIBLE_DEVICES=…"),
    f"{LAB}::test_a_raylet_with_few_files_left_gets_more": ("prlimit --pid … --nofile=…",),
    f"{LAB}::test_a_dead_node_joins_again": ("ray start --address=…",),
    f"{LAB}::test_a_wrong_dashboard_address_is_corrected": ("cockpit --address …",),
    f"{LAB}::test_a_node_is_drained_by_its_name": ("cockpit drain-node …",),
    f"{LAB}::test_commands_that_show_more_can_be_typed": (
        "ray status", "ray status -v", "ray memory", "ray memory --stats-only", "ray list nodes", "ray list actors --detail",
        "ray list … --detail", "ray list tasks", "ray list tasks --filter state=PENDING_NODE_ASSIGNMENT", "ray list … --filter state=…",
        "ray list workers --detail --filter exit_type=NODE_OUT_OF_MEMORY", "ray list workers --detail --filter exit_type=SYSTEM_ERROR",
        "ray job status …", "ray job logs …", "ray job stop", "ps -fp …", "ps -ef", "ps aux --sort=-rss | head", "free -b",
        "ls -lS /dev/shm",
        "ss -ltnp …", "du -xh --max-depth … … | sort -h", "ulimit -n …", "ulimit -u", "unset CUDA_VISIBLE_DEVICES",
    ),
    "lab/test_incidents_hosts.py::test_leftovers_of_ray_stop_and_limits_of_raylets_are_reported": ("cockpit kill-orphans …", "ray stop"),
    "lab/test_full_disk.py::test_a_driver_that_fills_the_disk_is_named_and_its_job_is_stopped": ("cockpit stop-job …",),
    "findings/test_log_files.py::test_the_command_removes_only_old_logs_of_workers": (
        "find … -maxdepth … -type f -name … -mmin +1440 -delete",
    ),
    "check/test_changes.py::test_groups_that_lack_cpus_are_told_the_number_for_their_node_or_none_if_they_are_a_crowd": ("--num-cpus=…",),
}  # fmt: skip
"""By the test below `tests/` that types them, or that types the value they stand for, and sees that it helps."""
PARSED = (
    "cockpit", "cockpit --address URL", "cockpit check -- bash …", "cockpit clean", "cockpit delete-pod …", "cockpit demo",
    "cockpit demo --plain", "cockpit doctor",
    "cockpit kill-orphans",
    "cockpit logs … --log …", "cockpit notify --test", "cockpit record", "cockpit recover", "cockpit recover …", "cockpit replay",
    "cockpit report", "cockpit report -o FILE.html",
    "cockpit status", "cockpit status --at TIME", "cockpit status --watch", "cockpit watch",
    "ray", "ray get-auth-token", "ray job submit", "ray list", "ray logs", "ray start --temp-dir=…", "ray start", "ray start --head",
    "ray start --head --temp-dir=…$USER", "--num-cpus", "--labels",
    "--min-worker-port", "--max-worker-port", "--dashboard-agent-listen-port", "--entrypoint-num-cpus", "--entrypoint-num-gpus",
    "nvidia-smi", "nvidia-smi -L", "nvidia-smi -i … -pl …", "nvidia-smi -i … -rac", "nvidia-smi -i … -rgc", "nvidia-smi -q",
    "nvidia-smi -q -d CLOCK,PERFORMANCE", "nvidia-smi -q -d ECC", "nvidia-smi -q -d PERFORMANCE", "nvidia-smi -q -d POWER",
    "nvidia-smi -q -d ROW_REMAPPER", "nvidia-smi -r -i …", "nvidia-smi dmon -s pu", "nvidia-smi nvlink -e", "nvidia-smi nvlink -s",
    "nvidia-smi topo -m",
)  # fmt: skip
"""Their flags are read by the program's own parser, or for nvidia-smi compared with its documentation."""
NEITHER: Mapping[str, tuple[str, ...]] = {
    "needs a GPU of NVIDIA's data center series and DCGM": ("dcgmi diag -r …",),
    "reads the kernel's log or devices of the host, which is not the lab's own": (
        "dmesg", "dmesg | grep -i -e nvrm -e xid", "dmesg | grep -i nvrm", "dmesg | tail", "dmesg | grep -i mlx",
        "dmesg -T | grep -i xid", "dmesg -T | grep -i …", "dmesg | grep -i -e aer -e pcie", "dmesg | grep -i -e xid -e nvlink",
        "dmesg | grep -i xid", "fuser -v /dev/nvidia*", "lspci | grep -i nvidia",
    ),
    "changes the whole machine, which the lab's hosts share": ("sysctl -w …=…",),
    "changes what new processes may have: the finding is about those that run": ("prlimit --pid … --nproc=…", "ulimit -u …",
    "ulimit -l unlimited"),
    "needs a Kubernetes cluster": (
        "kubectl describe pod -n … …", "kubectl describe raycluster -n … …",
        "kubectl get events -n … --field-selector involvedObject.name=…",
        "kubectl get rayjob -n … …",
        "kubectl logs -p -n … … -c …", "kubectl port-forward -n … … …",
    ),
    "needs Slurm; what cockpit does there is tested in tests/lab/test_slurm*.py": (
        "--mem=…", "sbatch --mem=", "sbatch …", "scontrol show job …", "scontrol show node …",
        "scontrol update JobId=… TimeLimit=+60", "sinfo", "squeue -h -j … -o %N", "srun --overlap --jobid=… -w … --pty cockpit",
    ),
    "is a flag of docker or podman when a container is made": ("--pids-limit", "--ulimit memlock=-1"),
    "installs a package, which a test does not do on the lab's hosts": ("pip install nvidia-ml-py",),
    "lists processes that hang, which a test can't make": ("ps -eo state,pid,wchan:… | grep ^D", "df"),
    "needs py-spy, which is not among cockpit's dependencies": ("py-spy dump --pid …",),
}  # fmt: skip
"""By the reason."""
