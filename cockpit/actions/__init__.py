"""Plans and carries out everything that changes a cluster: one module for each action or family, the executor, and the log."""
