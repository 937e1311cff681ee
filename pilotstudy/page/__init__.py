"""The page of a run, or of several: its data, the HTML file, and the server of a live one. A section is a module here.

May import `report`, `evidence` and all that they may import. The scripts and the style are in `dashboards/`.
"""
