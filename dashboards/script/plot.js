// How plots look, and Plotly itself.

/** Plotly takes longest to load, so the page is there before it: texts and tables can be used meanwhile. */
const plotly = new Promise((loaded) => {
  function load() {
    const code = document.getElementById("plotly").textContent;
    // From an address of its own, it is compiled in the background.
    const src = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    document.head.append(h("script", { src, onload: loaded }));
  }
  requestAnimationFrame(() => setTimeout(load, 0));
});

const look = (() => {
  // Okabe and Ito's colours; beside them a dash and a symbol, so that colour is never alone.
  const COLOURS = {
    light: ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B07C00", "#3A8FC4", "#555555", "#8A6FC0"],
    dark: ["#56B4E9", "#FF8B3D", "#2FC79B", "#E59BC4", "#E9B949", "#8CC9F0", "#B8BBC2", "#B79CEB"],
  };
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "hexagon", "triangle-down"];
  const CONFIG = {
    displaylogo: false,
    responsive: true,
    // Nothing is uploaded from a page that promises to use no network.
    modeBarButtonsToRemove: ["sendChartToCloud", "toImage", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  };

  const theme = () => document.documentElement.dataset.theme;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const narrow = () => window.innerWidth < 700;
  const dash = (number) => DASHES[number % DASHES.length];

  function style(number) {
    const colours = COLOURS[theme()];
    return {
      color: colours[number % colours.length],
      dash: dash(number),
      symbol: SYMBOLS[(number + Math.floor(number / colours.length)) % SYMBOLS.length],
    };
  }
  /** The same colour for all rows of an arm, another dash for each. */
  function ofRow({ arm, mode, phase }) {
    const arms = [...new Set(trials.columns().arm), "ensemble"];
    const number = Math.max(0, arms.indexOf(arm));
    return { ...style(number), dash: dash(number + (mode === "mc") + 2 * (phase === "confirm")) };
  }
  const ofArm = (arm) => ofRow({ arm, mode: "point", phase: "arms" });
  /** A layout in the page's look; every axis in it as well. */
  function layout(more = {}) {
    const line = css("--line");
    const axis = { gridcolor: css("--grid"), zerolinecolor: line, linecolor: line, automargin: true };
    const ink = css("--ink");
    const found = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
      margin: { l: 56, r: 14, t: 12, b: 46 },
      hoverlabel: { bgcolor: css("--card"), font: { color: ink } },
      legend: { orientation: "h", y: narrow() ? -0.4 : -0.22, x: 0 },
      xaxis: axis,
      yaxis: axis,
    };
    for (const [name, value] of Object.entries(more))
      found[name] = /^[xy]axis/.test(name) ? { ...axis, ...value } : value;
    return found;
  }
  /** The names of the axes of panel k of a grid: {x, y} for its traces, {xaxis, yaxis} for the layout. */
  function panel(k) {
    const suffix = k ? String(k + 1) : "";
    return { x: `x${suffix}`, y: `y${suffix}`, xaxis: `xaxis${suffix}`, yaxis: `yaxis${suffix}` };
  }
  /** An axis on which one row far off does not press all others together; double-click shows all. */
  function sensibleRange(values) {
    const known = values.filter(Number.isFinite).sort((a, b) => a - b);
    if (known.length < 4) return undefined;
    const low = known[0];
    const most = known[known.length - 1];
    const usual = known[Math.floor(0.85 * (known.length - 1))];
    const reach = usual - low;
    const cut = most - low > 3 * reach && reach > 0;
    return cut ? [Math.max(0, low - 0.08 * reach), usual + 0.35 * reach] : undefined;
  }
  /** What Plotly draws many points with. */
  const scatter = () => (trials.many() ? "scattergl" : "scatter");

  return { CONFIG, css, dash, layout, narrow, ofArm, ofRow, panel, scatter, sensibleRange, style, theme };
})();
