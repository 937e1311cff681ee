/**
 * Which rows are shown: a list to tick, behind a button that says how many they are. Kept in the address.
 *
 * name: in the address; rows: [{row, label}]; ticked: the names of those that are ticked, a Set that is changed in place
 * suggested: [text, names] of what to begin with
 */
function rowChooser(name, rows, ticked, suggested, changed) {
  const every = rows.map(({ row }) => row);
  choices.several(name, ticked, every, suggested[1]);
  const summary = h("summary", {});
  const boxes = rows.map(({ row, label }) => {
    const onchange = (event) =>
      take([...ticked].filter((one) => one !== row).concat(event.target.checked ? [row] : []));
    return h("label", {}, h("input", { type: "checkbox", value: row, onchange }), label);
  });
  function tell() {
    for (const box of boxes) box.firstChild.checked = ticked.has(box.firstChild.value);
    const some = every.filter((row) => ticked.has(row)).length;
    summary.textContent = some === every.length ? `all ${some} rows` : `${some} of ${every.length} rows`;
  }
  function take(wanted) {
    ticked.clear();
    for (const one of wanted) ticked.add(one);
    tell();
    choices.save();
    changed();
  }
  const [text, names] = suggested;
  const buttons = [
    button(text, () => take(names)),
    button(`all ${every.length}`, () => take(every)),
    button("none", () => take([])),
  ];
  const onkeydown = (event) => {
    if (event.key !== "Escape") return;
    details.open = false;
    summary.focus();
  };
  const list = h("div", {}, h("div", { class: "buttons" }, ...buttons), ...boxes);
  const details = h("details", { class: "chooser", onkeydown }, summary, list);
  tell();
  return details;
}
