/** The selected trials: the same ones are marked everywhere. */
const selection = (() => {
  const FEW = 20; // so many are kept in the address
  let chosen = new Set();

  function fillBar() {
    const bar = document.getElementById("selection");
    bar.hidden = !chosen.size;
    const [first] = chosen;
    bar.querySelector("span").textContent =
      chosen.size === 1 ? `1 trial selected: ${trials.title(first)}` : `${chosen.size} trials selected`;
    document.getElementById("to-trial").hidden = trialsSection.open !== first || chosen.size !== 1;
  }
  return {
    has: (i) => chosen.has(i),
    any: () => chosen.size > 0,
    all: () => [...chosen],
    /** `from`: the figure that they were selected in, which shows it already. */
    set(places, from) {
      chosen = new Set(places);
      fillBar();
      choices.save();
      drawing.redrawTrials(from);
      trialsSection.fill();
    },
    keep() {
      const names = () => (chosen.size > FEW ? "" : [...chosen].map(trials.name).join(","));
      choices.add("trials.selected", names, (text) => {
        const wanted = new Set(text.split(","));
        const found = trials.all().filter((i) => wanted.has(trials.name(i)));
        if (!found.length) return false;
        chosen = new Set(found);
        fillBar();
      });
    },
  };
})();
