"use strict";
// The table of runs: sorted by any column, filtered by words, ticked.
(function (insight) {
  const { element, count, duration, number } = insight;
  const missing = (value) => value === null || value === undefined;

  function state(run) {
    if (run.training) return "training";
    return run.steps && run.step >= run.steps ? "finished" : "stopped";
  }

  function progress(run) {
    if (!run.steps) return count(run.step);
    const label = `${count(run.step)} of ${count(run.steps)}`;
    return [label, element("progress", { max: run.steps, value: Math.min(run.step, run.steps), "aria-label": `${run.name}: updates` })];
  }

  const ago = (seconds) => `${duration(Math.max(Date.now() / 1000 - seconds, 0))} ago`;

  // name: in the address; head: of the column; value: sorts; shown: what stands there, the value by default.
  const COLUMNS = [
    { name: "name", head: "Run", value: (run) => run.name },
    { name: "state", head: "State", value: state, shown: (run) => element("span", { class: `state ${state(run)}` }, state(run)) },
    { name: "problem", head: "Problem", value: (run) => run.problem },
    { name: "model", head: "Model", value: (run) => run.model },
    { name: "set", head: "Set", value: (run) => run.hparams_set },
    { name: "differs", head: "Differs from the set", value: (run) => run.overrides },
    { name: "step", head: "Updates", value: (run) => run.step, shown: progress, numeric: true },
    {
      name: "speed", head: "Tokens/s", value: (run) => run.tokens_per_second, numeric: true,
      shown: (run) => count(run.tokens_per_second),
    },
    { name: "left", head: "Time left", value: (run) => run.seconds_left, shown: (run) => duration(run.seconds_left), numeric: true },
    {
      name: "best", head: "Best", value: (run) => run.best && run.best.value, numeric: true,
      shown: (run) => [number(run.best.value), element("span", { class: "unit" }, ` ${run.best.metric} at ${count(run.best.step)}`)],
    },
    { name: "changed", head: "Last change", value: (run) => run.changed, shown: (run) => ago(run.changed), numeric: true },
  ];

  function compared(a, b) {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  }

  function matches(run, words) {
    const text = COLUMNS.map((column) => column.value(run) ?? "").join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  // The runs that a filter leaves, sorted. What is not known comes last in either order.
  insight.arranged = function (runs, filter, sort, isDown) {
    const column = COLUMNS.find((one) => one.name === sort) || COLUMNS[0];
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = runs.filter((run) => matches(run, words));
    const [known, unknown] = [false, true].map((is) => kept.filter((run) => missing(column.value(run)) === is));
    known.sort((a, b) => (isDown ? -1 : 1) * compared(column.value(a), column.value(b)));
    return [...known, ...unknown];
  };

  // Draws a table; the head calls sorted(name of the column), boxes ticked(name of a run, whether), tickedAll(whether).
  insight.runTable = function (shownRuns, ticks, sort, isDown, { sorted, ticked, tickedAll }) {
    const head = (column) => {
      const isSorted = column.name === sort;
      const direction = isSorted ? (isDown ? "descending" : "ascending") : null;
      const arrow = element("span", { class: "arrow", "aria-hidden": "true" }, isSorted ? (isDown ? "\u25be" : "\u25b4") : "");
      const button = element("button", { type: "button", class: "sort", "data-sort": column.name, onclick: () => sorted(column.name) }, column.head, arrow);
      return element("th", { scope: "col", role: "columnheader", "aria-sort": direction, class: column.numeric ? "numeric" : null }, button);
    };
    const all = element("input", { type: "checkbox", "aria-label": "Tick all that are shown", onchange: () => tickedAll(all.checked) });
    all.checked = shownRuns.length > 0 && shownRuns.every((run) => ticks.has(run.name));

    function row(run) {
      const box = element("input", {
        type: "checkbox", "aria-label": `Tick ${run.name}`, "data-run": run.name, onchange: () => ticked(run.name, box.checked),
      });
      box.checked = ticks.has(run.name);
      const cell = (column, index) => {
        const shown = missing(column.value(run)) || column.value(run) === "" ? "\u2013" : (column.shown || column.value)(run);
        const attributes = { class: column.numeric ? "numeric" : null, "data-label": column.head, "data-column": column.name };
        if (index) return element("td", { ...attributes, role: "cell" }, shown);
        return element("th", { ...attributes, scope: "row", role: "rowheader" }, shown);
      };
      return element("tr", { role: "row", "data-run": run.name }, element("td", { class: "tick", role: "cell" }, box), COLUMNS.map(cell));
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
