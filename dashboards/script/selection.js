/** The selected trials: the same ones are marked everywhere. */
const selection = (() => {
  let chosen = new Set();
  return {
    has: (i) => chosen.has(i),
    any: () => chosen.size > 0,
    all: () => [...chosen],
    /** `from`: the figure that they were selected in, which shows it already. */
    set(places, from) {
      chosen = new Set(places);
      const bar = document.getElementById("selection");
      bar.hidden = !chosen.size;
      bar.querySelector("span").textContent = `${chosen.size} trial${chosen.size === 1 ? "" : "s"} selected`;
      drawing.redrawTrials(from);
      trialsSection.fill();
    },
  };
})();
