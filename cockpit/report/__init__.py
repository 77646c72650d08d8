"""A snapshot for somebody without a screen: as text, as JSON, as a doctor's report."""
