"""The classifiers by name.

Imports torch, and nothing of ours; `catalogue` imports it when a network is built.
"""
