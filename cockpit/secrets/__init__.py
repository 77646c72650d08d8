"""Finds secrets by a table of rules, and hides them in texts, variables, JSON and lines.

Prefixes and lengths of keys are those that the vendors issue. They were collected from gitleaks (config/gitleaks.toml), detect-secrets
(plugins/) and trufflehog (pkg/detectors/) as of July 2026, and from the documentation of vendors that these don't know.
"""

from cockpit.secrets.lines import LineRedactor
from cockpit.secrets.redaction import HIDDEN, find_secrets, hide, redact, redact_variable, redact_within

__all__ = ["HIDDEN", "LineRedactor", "find_secrets", "hide", "redact", "redact_variable", "redact_within"]
