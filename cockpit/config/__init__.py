"""What a user writes about cockpit itself: settings, thresholds of findings, hosts and how they are reached."""
