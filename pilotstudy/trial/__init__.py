"""One training in one process: resume, train, checkpoint, predict, evaluate, write.

May import `runs` and the rooms below it; no Ray.
"""
