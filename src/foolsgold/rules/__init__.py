"""The rules: which candidates are excluded, what a score makes of the others, which are taken. All pure."""
