"""What lies on disk: the run folder, its lock, its records and tables, and the keys of trials.

May import `study` and the rooms below it; neither torch nor Ray.
"""
