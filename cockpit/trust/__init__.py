"""Decides which Ray is followed unasked, which server gets a token or a secret, and which files are trusted."""

from cockpit.trust.ownership import ROOT, is_plain, own_uids, read_end, why_not_ours
from cockpit.trust.peer import FindServer, Peer
from cockpit.trust.token import TOKEN_PLACES, find_token, read_small

__all__ = ["ROOT", "TOKEN_PLACES", "FindServer", "Peer", "find_token", "is_plain", "own_uids", "read_end", "read_small", "why_not_ours"]
