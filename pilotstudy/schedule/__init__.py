"""What runs next: the director's plan, the search, the screen, what it will cost, and the engine without Ray.

May import `trial` and the rooms below it; no Ray.
"""
