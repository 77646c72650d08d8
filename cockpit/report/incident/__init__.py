"""What a recording tells somebody who wasn't there: what was found when, what was done by whom, who used what."""
