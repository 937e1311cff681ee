// A real table whose columns sort, and which fits where there is little room.

/** What has no value comes last, whichever way the rest is sorted. */
function compare(a, b, down) {
  const none = (value) => value == null || value === "" || Number.isNaN(value);
  if (none(a) || none(b)) return none(a) - none(b);
  const numbers = typeof a === "number" && typeof b === "number";
  const order = numbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

/**
 * columns: [{head, alone, name, title, left, text(row), sort(row), best(row), leads(row), sub(row)}]
 *   alone: its head where it does not stand beside the column that it belongs to; name: by default its head
 * state: what keeps, as `sort`, the name of the column that the reader sorted by, with "-" for downwards
 * caption, id: of the table
 * headings: whether the first cell of a row is its heading
 * onSort(): sorts elsewhere, instead of here
 * part(rows): what to show of the sorted rows
 * opens: {isOpen(row), toggle(row), under()}: rows open with a button in their first cell, or a click anywhere in them
 * rowAttributes(row): of its <tr>
 */
function sortableTable(columns, rows, options = {}) {
  const { caption, id, state = { sort: "" }, onSort, part = (all) => all } = options;
  const named = columns.map((column) => ({ ...column, name: column.name ?? column.head }));
  const keep = options.state && choices.one(state, "sort", ["", ...named.flatMap(({ name }) => [name, `-${name}`])]);
  const body = h("tbody");
  const heads = named.map((column) => headCell(column, () => sort(column.name)));
  const sortedBy = () => named.find(({ name }) => state.sort === name || state.sort === `-${name}`);
  const down = () => state.sort.startsWith("-");

  function sort(name) {
    state.sort = state.sort === name ? `-${name}` : name;
    keep?.();
    if (onSort) onSort();
    else fill();
  }
  function ordered() {
    const by = sortedBy();
    if (!by) return rows;
    const value = by.sort || by.text;
    return [...rows].sort((a, b) => compare(value(a), value(b), down()));
  }
  function fill() {
    const by = sortedBy();
    heads.forEach((head, number) => {
      const direction = down() ? "descending" : "ascending";
      head.setAttribute("aria-sort", by === named[number] ? direction : "none");
    });
    body.replaceChildren(...part(ordered()).flatMap((row) => tableRows(columns, row, options)));
    fitSoon(box);
  }
  const title = caption ? h("caption", {}, caption) : null;
  const box = h("div", { class: "scroll" }, h("table", { id }, title, h("thead", {}, h("tr", {}, ...heads)), body));
  fill();
  return box;
}

function headCell({ head, alone, left, title }, sort) {
  const names = [left && "left", alone && "minor"].filter(Boolean).join(" ");
  const inside = head ? button(head, sort) : h("span", { class: "unseen" }, "row");
  return h("th", { scope: "col", class: names || null, title }, inside);
}

/** A row, and what is open under it. */
function tableRows(columns, row, { headings = true, opens, rowAttributes = () => ({}) }) {
  const open = opens?.isOpen(row) ?? false;
  const cells = columns.map((column, number) => {
    const sub = column.sub?.(row);
    const names = [column.left && "left", column.best?.(row) && "best", column.leads?.(row) && "leads"].filter(Boolean);
    const heading = headings && number === 0;
    const text = column.text(row) ?? "";
    const shown = opens && number === 0 ? opener(text, open) : text;
    return h(
      heading ? "th" : "td",
      { class: names.join(" ") || null, scope: heading ? "row" : null, "data-head": column.alone ?? column.head },
      shown,
      sub ? h("small", {}, sub) : null,
    );
  });
  const { class: names, ...more } = rowAttributes(row);
  const classes = ["row", names, opens && "opens", open && "open"].filter(Boolean).join(" ");
  const onclick = opens && (() => opens.toggle(row));
  const own = h("tr", { class: classes, onclick, ...more }, ...cells);
  if (!open) return [own];
  return [own, h("tr", { class: "under" }, h("td", { colspan: columns.length }, opens.under()))];
}

/** The button of a row; its click is the row's. Arrows go from one to the next. */
function opener(text, open) {
  const onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const all = [...event.target.closest("tbody").querySelectorAll(".opener")];
    all[all.indexOf(event.target) + step]?.focus();
  };
  return h("button", { type: "button", class: "opener", "aria-expanded": String(open), onkeydown }, text);
}

/** A table that is too wide is a card for each row on a phone; elsewhere it scrolls beside its first column. */
function fit(box) {
  box.classList.remove("stacked", "overflows");
  box.removeAttribute("tabindex");
  if (box.scrollWidth <= box.clientWidth) return;
  const phone = window.innerWidth < 700;
  box.classList.add(phone ? "stacked" : "overflows");
  if (!phone) box.tabIndex = 0; // so that the arrow keys scroll it
}
function fitSoon(box) {
  requestAnimationFrame(() => fit(box));
}
addEventListener("resize", () => {
  for (const box of document.querySelectorAll(".scroll")) fit(box);
});
