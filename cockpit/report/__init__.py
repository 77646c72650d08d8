"""Writes snapshots and recordings for readers without a screen: text, one line, JSON, metrics, `doctor`'s report, incident reports."""
