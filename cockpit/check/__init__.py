"""Whether a preset's job would fit now, later or never. Whoever only lists presets imports nothing that reads commands."""
