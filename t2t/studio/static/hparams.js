"use strict";
// The hparams of the ticked runs side by side, with what differs.
(function (insight) {
  const { element, address } = insight;
  const MOST_RUNS = 12; // beside each other, where none are ticked

  const written = (value) => (value === null ? "\u2013" : typeof value === "object" ? JSON.stringify(value) : value === "" ? "none" : String(value));

  function table(found, onlyDiffering) {
    const rows = found.rows.filter((row) => row.differs || !onlyDiffering);
    const head = (text) => element("th", { scope: "col" }, insight.breakable(text));
    const body = [];
    let section = null;
    for (const row of rows) {
      if (row.section !== section) {
        section = row.section;
        body.push(element("tr", { class: "section" }, element("th", { colspan: found.runs.length + 1, scope: "rowgroup" }, section)));
      }
      const mark = row.differs ? element("span", { class: "mark", title: "differs" }, "\u2260", element("span", { class: "hidden" }, "differs")) : null;
      const cell = (value) => element("td", { class: value === null ? "missing" : null }, written(value));
      body.push(element("tr", { class: row.differs ? "differs" : null }, element("th", { scope: "row" }, insight.breakable(row.name), " ", mark), row.values.map(cell)));
    }
    const caption = `${rows.length} of ${found.rows.length}; \u2260 marks those that differ`;
    return element(
      "table",
      { class: "hparams" },
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, head("Hparam"), found.runs.map(head))),
      element("tbody", {}, body),
    );
  }

  async function show(content) {
    const place = element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": "Table of hparams" });
    const note = element("p", { class: "note" });
    content.append(note);
    try {
      const { runs: all, shown: runs, leftOut } = await insight.askForRuns(MOST_RUNS);
      const isTicked = address.all("run").length > 0;
      note.textContent = isTicked ? leftOut : `No run is ticked: these are ${runs.length} of ${all.length}. Tick others in the table of runs.`;
      const found = await insight.ask("/insight/hparams", { runs });
      const onlyDiffering = () => address.get("all") !== "1" && runs.length > 1;
      const draw = () => place.replaceChildren(table(found, onlyDiffering()));
      const box = insight.checkbox("Differences only", onlyDiffering(), (is) => {
        address.set({ all: is ? null : "1" });
        draw();
      });
      content.append(element("div", { class: "tools" }, runs.length > 1 ? box : null), place);
      draw();
    } catch (error) {
      content.append(insight.complaint(error));
    }
  }

  insight.start(show);
})((window.insight = window.insight || {}));
