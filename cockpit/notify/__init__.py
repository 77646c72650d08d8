"""Sends notifications: each message is the difference between the current findings and those that were already sent."""
