"""The only room with Ray: actors, the searcher that Tune asks, nodes and jobs.

May import `schedule` and the rooms below it.
"""
