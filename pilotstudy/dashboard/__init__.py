"""The page of a run: `data` makes what it shows, without Plotly; `dashboards/` draws it in a browser with plotly.js."""
