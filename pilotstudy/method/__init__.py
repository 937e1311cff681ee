"""The paper: masks, the DGM, Pilot and what it is compared with.

Imports torch, and nothing of ours.
"""
