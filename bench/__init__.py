"""What cockpit costs, measured beside its peers: `make bench`."""
