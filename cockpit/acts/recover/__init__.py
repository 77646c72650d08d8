"""The runbook that puts a cluster back on its feet: what each of its steps will do, and how far it is."""
