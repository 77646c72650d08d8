"""Ray's dashboard as a source: its HTTP interface, and its answers as facts. Ray 2.9 to 2.60."""
