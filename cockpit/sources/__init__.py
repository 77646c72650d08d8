"""Reads facts from Ray's dashboard and from a probe on each host, as values of the model; a failure is a `SourceError`."""
