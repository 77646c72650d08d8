"""Probes as sources: started here, over ssh or through Ray, and heard line by line."""
