// Tables: sorting by a column's exact values, and CSV with those values.
"use strict";
(() => {
  const text = (cell) => cell.textContent.trim();
  const exact = (cell) => cell.dataset.low ?? cell.dataset.value ?? text(cell);

  function compare(a, b) {
    const x = Number(a), y = Number(b);
    if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    // A cell without a value goes below every number.
    if (Number.isNaN(x) !== Number.isNaN(y) && (a === "–" || b === "–")) return a === "–" ? -1 : 1;
    return a.localeCompare(b, undefined, { numeric: true });
  }

  function makeSortable(table) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = Report.element("button", { type: "button" });
      button.append(...head.childNodes);
      button.querySelector(".label").append(Report.element("span", { class: "arrow", "aria-hidden": "true" }));
      head.append(button);
      head.classList.add("sorts");
      button.addEventListener("click", () => {
        // Numbers start with the largest; a third click restores the run's own order.
        const first = head.classList.contains("number") ? "descending" : "ascending";
        const second = first === "ascending" ? "descending" : "ascending";
        const now = head.getAttribute("aria-sort");
        const next = now === first ? second : now === second ? null : first;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        let rows = original;
        if (next) {
          head.setAttribute("aria-sort", next);
          const sign = next === "ascending" ? 1 : -1;
          rows = [...original].sort((r, s) => sign * compare(exact(r.cells[column]), exact(s.cells[column])));
        }
        body.append(...rows);
      });
    });
  }

  function rowsOf(table) {
    const heads = [...table.tHead.rows[0].cells];
    const ranged = heads.map((_, i) => [...table.tBodies[0].rows].some((row) => "low" in row.cells[i].dataset));
    const names = heads.flatMap((h, i) => ranged[i] ? [`${h.dataset.key}_low`, `${h.dataset.key}_high`] : [h.dataset.key]);
    const lines = [...table.tBodies[0].rows].map((row) => [...row.cells].flatMap((cell, i) =>
      ranged[i] ? [cell.dataset.low ?? "", cell.dataset.high ?? ""] : [cell.dataset.value ?? text(cell).replace(/^–$/, "")]));
    return [names, ...lines];
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const table of document.querySelectorAll("table[data-name]")) {
      const save = Report.element("button", { type: "button", class: "quiet", "aria-label": `Save this table as CSV: ${table.caption.textContent.trim()}` }, "CSV");
      save.addEventListener("click", () => Report.download(`${table.dataset.name}.csv`, "text/csv", Report.csv(rowsOf(table))));
      if (table.classList.contains("sortable")) makeSortable(table);
      table.closest(".tablebox").querySelector(".tablehead").append(save);
    }
  });
})();
