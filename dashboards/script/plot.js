// How plots look, and Plotly itself.

/** Plotly takes longest to load, so the page is there before it: texts and tables can be used meanwhile. */
const plotly = new Promise((loaded) => {
  async function load() {
    const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (c) => c.charCodeAt(0));
    const code = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    // From an address of its own, it is compiled in the background.
    const src = URL.createObjectURL(new Blob([await new Response(code).blob()], { type: "text/javascript" }));
    document.head.append(h("script", { src, onload: loaded }));
  }
  requestAnimationFrame(() => setTimeout(load, 0));
});

const look = (() => {
  // Okabe and Ito's colours; beside them a dash and a symbol, so that colour is never alone.
  const COLOURS = {
    // After eight of them, eight that are darker on light ground and lighter on dark ground.
    light: [
      ...["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B07C00", "#4FA3D8", "#6E6E6E", "#8A6FC0"],
      ...["#003E63", "#7E3700", "#005C43", "#8C2F66", "#5F4300", "#2F5F85", "#2B2B2B", "#4A2F86"],
    ],
    dark: [
      ...["#56B4E9", "#FF8B3D", "#2FC79B", "#E59BC4", "#E9B949", "#3F93D6", "#B8BBC2", "#A184EA"],
      ...["#B5DDF7", "#FFC7A1", "#A6EBCF", "#F9D6EA", "#F7E3AE", "#9CB8FF", "#E9EBEF", "#DDD0F8"],
    ],
  };
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "hexagon", "triangle-down"];
  const CONFIG = {
    displaylogo: false,
    // Nothing is uploaded from a page that promises to use no network.
    modeBarButtonsToRemove: ["sendChartToCloud", "toImage", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  };
  const PRINTED = 620; // pixels of a sheet's width
  const LOW = 240; // of a figure on a sheet, so that two of them fit below a heading
  const BUTTONS = 18; // what Plotly's take above a figure, but not on a sheet

  const root = document.documentElement;
  const theme = () => root.dataset.theme;
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const printing = () => "printing" in root.dataset;
  const narrow = () => printing() || window.innerWidth < 700;
  /** What Plotly must not remember of another: it keeps margins, and the width of a sheet. */
  const form = () => `${printing() ? "printed" : "shown"} ${narrow() ? "narrow" : "wide"}`;
  const dash = (number) => DASHES[number % DASHES.length];
  /** What users wrote is text: Plotly takes some tags for markup. */
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  /** A colour, #rrggbb, of which only a share is left. */
  const faded = (color, share) =>
    color +
    Math.round(255 * share)
      .toString(16)
      .padStart(2, "0");

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
    const number = Math.max(0, [...armLabels.names(), "ensemble"].indexOf(arm));
    return { ...style(number), dash: dash(number + (mode === "mc") + 2 * (phase === "confirm")) };
  }
  const ofArm = (arm) => ofRow({ arm, mode: "point", phase: "arms" });
  /** A layout in the page's look; every axis in it as well. */
  function layout(more = {}) {
    const line = css("--line");
    const axis = { gridcolor: css("--grid"), zerolinecolor: line, linecolor: line, automargin: true };
    const font = { family: "system-ui, sans-serif", size: 13, color: css("--ink") };
    const found = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font,
      margin: { l: 56, r: 14, t: 12, b: 46 },
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--quiet"), font: { ...font, size: 12 }, align: "left" },
      modebar: { bgcolor: css("--card"), color: css("--quiet"), activecolor: css("--accent") },
      xaxis: axis,
      yaxis: axis,
    };
    for (const [name, value] of Object.entries(more))
      found[name] = /^[xy]axis/.test(name) ? { ...axis, ...value } : value;
    return found;
  }
  const widthOf = (plot) => (printing() ? PRINTED : plot.clientWidth);
  /** The layout of a plot with its legend above it, below the buttons; where there is little room, it scrolls. */
  function withLegend(plot, traces, found, height) {
    const width = widthOf(plot);
    const names = traces.filter((trace) => trace.name && trace.showlegend !== false).map((trace) => trace.name);
    const widths = names.map((name) => 64 + 7.2 * name.length);
    const room = width - found.margin.l - found.margin.r;
    const inOneRow = widths.reduce((sum, one) => sum + one, 0) < room;
    const lines = inOneRow ? 1 : Math.ceil(names.length / Math.max(1, Math.floor(room / Math.max(...widths))));
    const wanted = names.length > 1 || traces.some((trace) => trace.showlegend) ? 21 * lines + 10 : 0;
    const most = narrow() ? 178 : 144;
    const free = printing() ? 0 : BUTTONS;
    const legend = printing() ? wanted : Math.min(wanted, most);
    const onTop = { orientation: "h", x: 0, y: 1, yanchor: "bottom", itemwidth: 44, tracegroupgap: 0 };
    return {
      height: (printing() ? Math.min(height, LOW) : height) + legend + free,
      width,
      ...found,
      margin: { ...found.margin, t: found.margin.t + legend + free },
      legend: { ...onTop, maxheight: printing() ? 2000 : most, ...found.legend },
    };
  }
  /** The names of the axes of panel k of a grid: {x, y} for its traces, {xaxis, yaxis} for the layout. */
  function panel(k) {
    const suffix = k ? String(k + 1) : "";
    return { x: `x${suffix}`, y: `y${suffix}`, xaxis: `xaxis${suffix}`, yaxis: `yaxis${suffix}` };
  }
  /** About so many steps of 1, 2 or 5 times a power of ten. */
  function step(reach, wanted) {
    const least = reach / wanted;
    const power = 10 ** Math.floor(Math.log10(least));
    return power * [1, 2, 5, 10].find((times) => times * power >= 0.999 * least);
  }
  /** Where ticks of logarithms to base 10 are: at decades and halves of them. */
  function logTicks(low, high) {
    const every = Math.max(0.5, Math.ceil((high - low) / 4));
    const ticks = [];
    for (let tick = Math.ceil(low / every) * every; tick <= high; tick += every) ticks.push(tick);
    const ends = high > low ? [low, high] : [low]; // half a decade may hold no tick
    return ticks.length > 1 ? ticks : ends;
  }
  const ofLog = (tick) => String(+(10 ** tick).toPrecision(2));
  /** An axis of what is counted, such as epochs: ticks at whole numbers alone. */
  function whole(values, more = {}, most = narrow() ? 6 : 12) {
    const first = Math.min(...values);
    const last = Math.max(...values);
    const dtick = Math.max(1, step(Math.max(1, last - first), most));
    const range = last > first ? undefined : [first - 0.5, last + 0.5];
    return { ...more, tickmode: "linear", tick0: 0, dtick, range };
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

  return {
    CONFIG,
    css,
    dash,
    faded,
    form,
    layout,
    logTicks,
    narrow,
    ofLog,
    ofArm,
    ofRow,
    panel,
    plain,
    printing,
    sensibleRange,
    step,
    theme,
    whole,
    widthOf,
    withLegend,
  };
})();
