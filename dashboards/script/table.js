// A real table whose columns sort.

/** What has no value comes last, whichever way the rest is sorted. */
function compare(a, b, down) {
  const none = (value) => value == null || value === "" || Number.isNaN(value);
  if (none(a) || none(b)) return none(a) - none(b);
  const numbers = typeof a === "number" && typeof b === "number";
  const order = numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

/**
 * columns: [{head, title, left, text(row), sort(row), best(row), sub(row)}]
 * caption, id: of the table
 * headings: whether the first cell of a row is its heading
 * sorted: {number of a column, down}, to begin with
 * onSort(sorted): sorts elsewhere, instead of here
 * part(rows): what to show of the sorted rows
 * onRow(row): makes rows that can be chosen, with a click or the keyboard
 * rowAttributes(row): more attributes of its row
 */
function sortableTable(columns, rows, options = {}) {
  const { caption, id, sorted = null, onSort, part = (all) => all } = options;
  let by = sorted;
  const body = h("tbody");
  const heads = columns.map((column, number) =>
    h(
      "th",
      { scope: "col", class: column.left ? "left" : null, title: column.title },
      button(column.head, () => sort(number)),
    ),
  );
  function sort(number) {
    by = { number, down: by?.number === number && !by.down };
    if (onSort) onSort(by);
    else fill();
  }
  function ordered() {
    if (!by) return rows;
    const value = columns[by.number].sort || columns[by.number].text;
    return [...rows].sort((a, b) => compare(value(a), value(b), by.down));
  }
  function fill() {
    heads.forEach((head, number) => {
      const direction = by?.down ? "descending" : "ascending";
      head.setAttribute("aria-sort", by?.number === number ? direction : "none");
    });
    body.replaceChildren(...part(ordered()).map((row) => tableRow(columns, row, options)));
  }
  fill();
  const title = caption ? h("caption", {}, caption) : null;
  return h("div", { class: "scroll" }, h("table", { id }, title, h("thead", {}, h("tr", {}, ...heads)), body));
}

function tableRow(columns, row, { headings = true, onRow, rowAttributes = () => ({}) }) {
  const cells = columns.map((column, number) => {
    const sub = column.sub?.(row);
    const names = [column.left && "left", column.best?.(row) && "best"].filter(Boolean).join(" ");
    const heading = headings && number === 0;
    return h(
      heading ? "th" : "td",
      { class: names || null, scope: heading ? "row" : null },
      column.text(row) ?? "",
      sub ? h("small", {}, sub) : null,
    );
  });
  const { class: names, ...more } = rowAttributes(row);
  const chosen = {
    tabindex: 0,
    onclick: () => onRow(row),
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        onRow(row);
      }
      if (event.key === "ArrowDown") event.target.nextElementSibling?.focus();
      if (event.key === "ArrowUp") event.target.previousElementSibling?.focus();
    },
  };
  const attributes = { class: ["row", names].filter(Boolean).join(" "), ...(onRow ? chosen : {}), ...more };
  return h("tr", attributes, ...cells);
}
