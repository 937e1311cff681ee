// 7. Trials, continued: one of them in detail.

const oneTrial = (() => {
  const CONFIG = { ...look.CONFIG, responsive: true };
  const style = "height: 280px";
  const place = h("div", { id: "detail" });
  let shown = null; // {of, i}: what the place holds now

  function facts(i) {
    const c = trials.columns();
    const settings = trials.settings().map((name) => [name, trials.setting(name)(i)]);
    return [
      ["status", c.status[i]],
      ...(c.error[i] ? [["error", c.error[i]]] : []),
      ["seed", c.seed[i]],
      ["epochs", c.epochs[i]],
      ["best epoch", c.best_epoch[i]],
      ["seconds", c.seconds[i]],
      ["retries", c.retries[i]],
      ["moves", c.moves[i]],
      ["reused", c.reused[i] ? "yes" : "no"],
      ...settings.filter(([, value]) => value !== null),
    ];
  }
  function drawCurves(plot, i) {
    const nll = trials.curve(i, "validation_nll");
    if (!nll.length) {
      plot.append(h("p", { class: "quiet" }, "It has no epochs to show."));
      return;
    }
    const x = nll.map((_, k) => k + 1);
    const line = (y, metric, more) => ({
      type: "scatter",
      mode: x.length > 1 ? "lines" : "lines+markers",
      x,
      y,
      name: metrics.get(metric).head,
      ...more,
    });
    const { color } = look.ofArm(trials.columns().arm[i]);
    const accuracyLine = { color, dash: "dash" };
    const traces = [
      line(nll, "nll", { line: { color } }),
      line(trials.curve(i, "validation_accuracy"), "accuracy", { yaxis: "y2", line: accuracyLine }),
    ];
    const layout = look.layout({
      height: 280,
      margin: { l: 44, r: 44, t: 30, b: 36 },
      xaxis: look.whole(x, { title: { text: "epoch" } }, 6),
      legend: { orientation: "h", y: 1, yanchor: "bottom" },
      yaxis2: { overlaying: "y", side: "right", showgrid: false, tickmode: "auto", nticks: 5 },
    });
    Plotly.newPlot(plot, traces, layout, CONFIG);
  }
  function drawBins(plot, i) {
    const bins = trials.bins(i);
    if (!bins.count.some((n) => n > 0)) {
      plot.append(h("p", { class: "quiet" }, "It has no predictions to show."));
      return;
    }
    const row = { arm: trials.columns().arm[i], mode: "point", phase: "arms", seeds: 1 };
    const layout = look.layout({
      height: 280,
      margin: { l: 44, r: 8, t: 8, b: 36 },
      barmode: "overlay",
      showlegend: false,
      xaxis: { range: [0, 1], title: { text: "confidence" } },
      yaxis: { range: [0, 1], title: { text: "accuracy" } },
    });
    Plotly.newPlot(plot, reliability.traces(row, bins, false), layout, CONFIG);
  }
  function fill(i) {
    const curves = h("div", { class: "plot", id: "detail-curves", style });
    const bins = h("div", { class: "plot", id: "detail-bins", style });
    const reading = (text) => h("p", { class: "reading" }, text);
    place.replaceChildren(
      h("h3", {}, trials.title(i)),
      h(
        "div",
        { class: "detail" },
        factList(facts(i)),
        h("div", {}, reading("Its validation NLL and accuracy by epoch."), curves),
        h("div", {}, reading("Its calibration on validation images, last epoch."), bins),
      ),
    );
    const traceback = page.data.trials.tracebacks[i];
    if (traceback) place.append(reading("Where it failed."), h("pre", { id: "traceback", tabindex: 0 }, traceback));
    // Once it lies in the page, so that Plotly knows how wide it is.
    plotly.then(() => {
      if (!curves.isConnected) return;
      drawCurves(curves, i);
      drawBins(bins, i);
    });
  }
  return {
    /** The element with all there is to know of a trial. */
    of(i) {
      if (shown?.i !== i || shown.of !== page.data) {
        shown = { of: page.data, i };
        fill(i);
      }
      return place;
    },
    /** To be made again: in other colours, or because it left the page. */
    forget() {
      shown = null;
    },
  };
})();
