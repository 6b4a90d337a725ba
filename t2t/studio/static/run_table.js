"use strict";
// The table of runs: sorted by any column, filtered by words, ticked.
(function (insight) {
  const { element, count, duration, number } = insight;
  const missing = (value) => value === null || value === undefined;

  function progress(run) {
    if (!run.of) return count(run.step);
    const label = `${count(run.step)} of ${count(run.of)}`;
    const attributes = { max: run.of, value: Math.min(run.step, run.of), "aria-label": `${run.run}: updates done` };
    return [label, element("progress", attributes)];
  }

  const ago = (seconds) => `${duration(Math.max(Date.now() / 1000 - seconds, 0)).split(" ").slice(0, 2).join(" ")} ago`;
  const state = (run) => element("span", { class: `state ${run.state}`, title: run.error || null }, run.state);
  const best = (run) => element("span", {}, number(run.best), element("span", { class: "unit" }, " ", insight.breakable(run.metric), ` at ${count(run.at_step)}`));

  const text = (name) => (run) => insight.breakable(run[name]);

  // name: a field of a run, and of the address; head: of the column; shown: what stands there.
  const COLUMNS = [
    { name: "run", shown: text("run"), head: "Run" },
    { name: "state", head: "State", shown: state },
    { name: "problem", shown: text("problem"), head: "Problem" },
    { name: "model", shown: text("model"), head: "Model" },
    { name: "hparams_set", shown: text("hparams_set"), head: "Set" },
    { name: "changes", shown: (run) => run.changes.replaceAll(",", ", "), head: "Differs from the set" },
    { name: "step", head: "Updates", shown: progress, numeric: true },
    { name: "tokens_per_second", head: "Tokens/s", shown: (run) => count(run.tokens_per_second), numeric: true },
    { name: "seconds_left", head: "Time left", shown: (run) => duration(run.seconds_left), numeric: true },
    { name: "best", head: "Best", shown: best, numeric: true },
    { name: "updated", head: "Last report", shown: (run) => ago(run.updated), numeric: true },
  ];

  function compared(a, b) {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  }

  function matches(run, words) {
    const text = COLUMNS.map((column) => run[column.name] ?? "").join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  // The runs that a filter leaves, sorted. What is not known comes last in either order.
  insight.arranged = function (runs, filter, sort, isDown) {
    const column = COLUMNS.find((one) => one.name === sort) || COLUMNS[0];
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = runs.filter((run) => matches(run, words));
    const [known, unknown] = [false, true].map((is) => kept.filter((run) => missing(run[column.name]) === is));
    known.sort((a, b) => (isDown ? -1 : 1) * compared(a[column.name], b[column.name]));
    return [...known, ...unknown];
  };

  // Draws a table; the head calls sorted(name of the column), boxes ticked(name of a run, whether), tickedAll(whether),
  // which is of those that are not damaged.
  insight.runTable = function (shownRuns, ticks, sort, isDown, { sorted, ticked, tickedAll }) {
    const head = (column) => {
      const isSorted = column.name === sort;
      const direction = isSorted ? (isDown ? "descending" : "ascending") : null;
      const arrow = element("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDown ? "\u25be" : "\u25b4") : "");
      const button = element("button", { type: "button", class: "sort", "data-sort": column.name, onclick: () => sorted(column.name) }, column.head, arrow);
      return element("th", { scope: "col", role: "columnheader", "aria-sort": direction, class: column.numeric ? "numeric" : null }, button);
    };
    const all = element("input", { type: "checkbox", "aria-label": "Tick all that are shown", onchange: () => tickedAll(all.checked) });
    const undamaged = shownRuns.filter((run) => run.state !== "damaged");
    all.checked = undamaged.length > 0 && undamaged.every((run) => ticks.has(run.run));

    function row(run) {
      const box = element("input", {
        type: "checkbox", "aria-label": `Tick ${run.run}`, "data-run": run.run, onchange: () => ticked(run.run, box.checked),
      });
      box.checked = ticks.has(run.run);
      const cell = (column, index) => {
        const shown = missing(run[column.name]) || run[column.name] === "" ? "\u2013" : column.shown(run);
        const attributes = { class: column.numeric ? "numeric" : null, "data-label": column.head, "data-column": column.name };
        if (index) return element("td", { ...attributes, role: "cell" }, shown);
        return element("th", { ...attributes, scope: "row", role: "rowheader" }, shown);
      };
      return element("tr", { role: "row", "data-run": run.run }, element("td", { class: "tick", role: "cell" }, box), COLUMNS.map(cell));
    }

    return element(
      "table",
      { class: "runs", role: "table" },
      element("caption", { class: "hidden" }, "Runs"),
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, element("td", { class: "tick", role: "cell" }, all), COLUMNS.map(head))),
      element("tbody", { role: "rowgroup" }, shownRuns.map(row)),
    );
  };
})((window.insight = window.insight || {}));
