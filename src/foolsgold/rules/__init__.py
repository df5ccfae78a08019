"""The rules: what is excluded, what a score makes of a candidate, which ones are taken, how sure a rate is. All pure."""
