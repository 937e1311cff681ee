"""A run's page: its data, the HTML file, and the server of a live one. A section of the page is a module here.

May import `report`, `evidence` and all that they may import. The scripts and the style are in `dashboards/`.
"""
