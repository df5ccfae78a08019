"""The rules: which candidates are excluded, what a score makes of the others, which are taken, how sure a rate is.

All pure: they know records and numpy, and no model.
"""
