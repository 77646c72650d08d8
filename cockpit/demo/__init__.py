"""Runs a real Ray cluster with simulated GPUs and some faults on this machine."""

from cockpit.demo.cluster import DemoCluster, DemoError, demo_cluster, run_demo

__all__ = ["DemoCluster", "DemoError", "demo_cluster", "run_demo"]
