"""What there is to see: pages as pure functions from a view to sections."""
