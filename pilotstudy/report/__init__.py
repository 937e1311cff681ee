"""Forms for people: text, Markdown, LaTeX, CSV, and a folder for an appendix. It computes nothing itself.

May import `evidence` and all that it may import, `schedule` for what a plan says, and `console`.
"""
