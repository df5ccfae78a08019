"""The labelling page: which pairs to ask a person about, the answers on disk, and the local page that asks.

choose -> session (what to show next, answer, undo) -> server (HTTP, token) -> page/ (what the browser runs)
"""
