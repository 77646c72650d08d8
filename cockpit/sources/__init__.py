"""Where facts come from: Ray's dashboard, and a probe on each host. Both speak the model's words and raise `SourceError`."""
