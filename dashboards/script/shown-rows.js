// Which rows the figures of a run highlight, where they are many; the reader chooses them for all figures at once.

const shownRows = (() => {
  const FEW = 8;
  const ticked = new Set();
  let suggested = [];
  const rows = () => page.data.table.variants.last.filter((row) => row.seeds);
  const few = () => rows().length <= FEW;
  const has = (row) => few() || ticked.has(row);

  return {
    /** Whether a row, by its name, is highlighted. */
    has,
    /** The look of a row that is not: thin and grey. */
    faded: () => ({ color: look.css("--faint"), dash: "solid", symbol: "circle" }),
    /** To choose them, in `parent`. changed(): draws again the figures that ask for them. */
    addControl(parent, changed) {
      if (few()) return;
      const untouched = suggested.length === ticked.size && suggested.every((row) => ticked.has(row));
      suggested = page.data.answer.highlighted;
      if (untouched) {
        ticked.clear();
        for (const row of suggested) ticked.add(row);
      }
      const chooser = rowChooser("rows", rows(), ticked, [`the ${suggested.length} that matter`, suggested], changed);
      parent.append(h("div", { id: "rows", class: "controls" }, "The figures highlight", chooser));
    },
  };
})();
