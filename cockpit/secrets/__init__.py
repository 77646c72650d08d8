"""What is a secret, and texts without any: a table of rules.

Prefixes and lengths of keys are as their vendors give them out, collected from gitleaks (config/gitleaks.toml), detect-secrets (plugins/)
and trufflehog (pkg/detectors/) as of July 2026, and from the documentation of vendors that these don't know.
"""

from cockpit.secrets.lines import LineRedactor
from cockpit.secrets.redaction import HIDDEN, find_secrets, hide, redact, redact_variable, redact_within

__all__ = ["HIDDEN", "LineRedactor", "find_secrets", "hide", "redact", "redact_variable", "redact_within"]
