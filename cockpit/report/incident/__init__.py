"""Makes incident reports from recordings: findings, actions, jobs and usage over time, as HTML, Markdown or JSON."""
