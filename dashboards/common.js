"use strict";
// What the page of a run and the index of all runs share.

/** An element with attributes and children; text is always text, never markup. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const fixed = (value, digits = 4) => (value === null || value === undefined ? "" : Number(value).toFixed(digits));

/** A real table whose columns sort. columns: [{name, head, left, text(row), sort(row), best(row), sub(row)}] */
function sortableTable(columns, rows, { caption, onRow, rowClass, sorted } = {}) {
  let by = sorted || null;
  const body = h("tbody");
  const heads = columns.map((column, number) =>
    h("th", { scope: "col", class: column.left ? "left" : null, title: column.title },
      h("button", { type: "button", onclick: () => sort(number) }, column.head)));
  function sort(number) {
    by = by && by.number === number ? { number, down: !by.down } : { number, down: false };
    fill();
  }
  function fill() {
    heads.forEach((head, number) => head.setAttribute("aria-sort", by && by.number === number ? (by.down ? "descending" : "ascending") : "none"));
    const value = by && (columns[by.number].sort || columns[by.number].text);
    const ordered = by ? [...rows].sort((a, b) => compare(value(a), value(b), by.down)) : rows;
    body.replaceChildren(...ordered.map((row) => {
      const cells = columns.map((column, number) => {
        const parts = [column.text(row) ?? ""];
        const sub = column.sub && column.sub(row);
        if (sub) parts.push(h("small", {}, sub));
        const tag = number === 0 ? "th" : "td";
        return h(tag, { class: [column.left && "left", column.best && column.best(row) && "best"].filter(Boolean).join(" ") || null, scope: number === 0 ? "row" : null }, ...parts);
      });
      return h("tr", { class: ["row", rowClass && rowClass(row)].filter(Boolean).join(" "), tabindex: onRow ? 0 : null,
        onclick: onRow && (() => onRow(row)), onkeydown: onRow && ((event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); onRow(row); } }) }, ...cells);
    }));
  }
  fill();
  return h("div", { class: "scroll" }, h("table", {}, caption ? h("caption", {}, caption) : null, h("thead", {}, h("tr", {}, ...heads)), body));
}

/** What has no value comes last, whichever way the rest is sorted. */
function compare(a, b, down = false) {
  const none = (value) => value === null || value === undefined || value === "" || Number.isNaN(value);
  if (none(a) || none(b)) return none(a) - none(b);
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  return down ? -order : order;
}

/** Numbers as CSV, quoted where needed; what a spreadsheet would take for a formula is kept as text. */
function toCsv(columns, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function download(name, text, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Light or dark: the system's, until the reader chooses. */
function themeButton(button, changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => {
    const dark = chosen === null ? system.matches : chosen === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Change to the light theme" : "Change to the dark theme");
    changed();
  };
  button.addEventListener("click", () => { chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; apply(); });
  system.addEventListener("change", apply);
  apply();
}
