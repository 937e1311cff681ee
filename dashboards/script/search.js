// 5. Search: how it went, and what it found.

const searchSection = (() => {
  const READING =
    "Validation figures of every search trial; each arm had the same number of trials. Drag over points to select " +
    "trials: they are marked in every figure and in the table of trials.";
  const state = { x: "nll", y: "accuracy" };
  const armNames = () => Object.keys(page.data.search.arms);

  const armsWithTrials = () => armNames().filter((arm) => trials.searched(arm).length);

  const noTrial = () => nothingYet("No trial of the search has finished yet");
  function missing() {
    const without = armNames().filter((arm) => !trials.searched(arm).length);
    return without.length ? nothingYet(`No trial has finished yet of ${without.map(armLabels.of).join(", ")}`) : "";
  }

  // History

  function history(parent) {
    const number = trials.value("number");
    const nll = trials.value("nll");
    const ofArm = (arm) => {
      const places = trials.searched(arm);
      const style = look.ofArm(arm);
      let best = Infinity;
      const bestSoFar = places.map((i) => {
        best = Math.min(best, nll(i));
        return best;
      });
      const line = {
        type: "scatter",
        mode: "lines",
        x: places.map(number),
        y: bestSoFar,
        line: { color: style.color, dash: style.dash, shape: "hv", width: 2 },
        showlegend: false,
        hoverinfo: "skip",
      };
      return [trialPoints.trace(places, number, nll, style, armLabels.of(arm)), line];
    };
    figure(parent, {
      id: "history",
      title: "History",
      reading: "Each point is a trial, the line the best so far of its arm.",
      ofTrials: true,
      empty: noTrial,
      missing,
      draw() {
        if (!trials.searched().length) return [[], {}];
        const traces = [...armsWithTrials().flatMap(ofArm), ...trialPoints.marks(number, nll, armNames())];
        const xaxis = look.whole(trials.searched().map(number), { title: { text: "trial" } });
        const yaxis = { title: { text: `validation ${metrics.get("nll").head}` } };
        return [traces, look.layout({ dragmode: "select", xaxis, yaxis })];
      },
      numbers() {
        const figures = trials.figures();
        const names = ["arm", "number", ...figures.map((metric) => metric.name)];
        return {
          columns: ["arm", "trial", ...figures.map((metric) => metric.head)],
          rows: trials.searched().map((i) => names.map((name) => trials.columns()[name][i])),
        };
      },
      after: trialPoints.link,
    });
  }

  // Pareto front

  const aboveFloor = (i) => trials.columns().accuracy[i] >= page.data.search.floor;

  /** The trials that no other beats in both figures. */
  function front() {
    const loss = (name) => (i) => -metrics.get(name).better * trials.columns()[name][i];
    const x = loss(state.x);
    const y = loss(state.y);
    const ordered = trials
      .searched()
      .filter(aboveFloor)
      .sort((a, b) => x(a) - x(b) || y(a) - y(b));
    let best = Infinity;
    return ordered.filter((i) => {
      const better = y(i) < best;
      if (better) best = y(i);
      return better;
    });
  }
  function drawPareto() {
    if (!trials.searched().length) return [[], {}];
    const x = trials.value(state.x);
    const y = trials.value(state.y);
    const best = front();
    const onFront = new Set(best);
    const onTheFront = (i) => onFront.has(i);
    const traces = armsWithTrials().flatMap((arm) => {
      const style = look.ofArm(arm);
      const label = armLabels.of(arm);
      const places = trials.searched(arm);
      const bad = places.filter((i) => !aboveFloor(i));
      const behind = places.filter((i) => aboveFloor(i) && !onFront.has(i));
      const crossed = { color: look.css("--bad"), symbol: "x-thin-open" };
      return [
        { ...trialPoints.trace(behind, x, y, { ...style, opacity: 0.4 }, label), showlegend: !places.some(onTheFront) },
        trialPoints.trace(places.filter(onTheFront), x, y, { ...style, opacity: 1 }, label),
        ...(bad.length ? [trialPoints.trace(bad, x, y, crossed, `${label}, below the floor`)] : []),
      ];
    });
    const staircase = {
      type: "scatter",
      mode: "lines",
      x: best.map(x),
      y: best.map(y),
      line: { shape: "hv", color: look.css("--ink"), width: 1.5 },
      name: "front",
      hoverinfo: "skip",
    };
    const axis = (name) => ({ title: { text: `validation ${metrics.get(name).head}` } });
    const layout = look.layout({ dragmode: "select", xaxis: axis(state.x), yaxis: axis(state.y) });
    return [[...traces, staircase, ...trialPoints.marks(x, y, armNames())], layout];
  }
  function pareto(parent) {
    const options = metrics.options(page.data.metrics);
    const redraw = () => drawing.redraw("pareto");
    figure(parent, {
      id: "pareto",
      title: "Pareto front",
      reading:
        "Trials that no other beats in both figures are joined by the staircase; those below the floor on accuracy " +
        "are crossed, and those that are beaten pale.",
      controls: [choice("x", options, state, "x", redraw), choice("y", options, state, "y", redraw)],
      ofTrials: true,
      empty: noTrial,
      missing,
      draw: drawPareto,
      numbers() {
        const best = new Set(front());
        const x = trials.value(state.x);
        const y = trials.value(state.y);
        return {
          columns: ["trial", metrics.get(state.x).head, metrics.get(state.y).head, "on the front"],
          rows: trials.searched().map((i) => [trials.name(i), x(i), y(i), best.has(i) ? "yes" : ""]),
        };
      },
      after: trialPoints.link,
    });
  }

  return {
    add() {
      if (!armNames().length) return;
      const parent = section("search", "Search", READING);
      history(parent);
      pareto(parent);
      searchedSettings.add(parent);
    },
  };
})();
