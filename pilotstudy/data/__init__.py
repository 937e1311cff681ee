"""Images as arrays: where they come from, how they are prepared once, and how they are split.

Imports none of the other rooms.
"""
