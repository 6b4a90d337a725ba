"use strict";
// The data of a run as it learns from them: how much there is, how long it is, examples, vocabularies.
(function (insight) {
  const { element, address, count } = insight;

  function table(caption, heads, rows) {
    const head = element("tr", {}, heads.map((text) => element("th", { scope: "col" }, text)));
    const body = rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row" }, first), rest.map((text) => element("td", {}, text))));
    return element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, body));
  }

  // How many examples there are, and what became of the others when the data was generated.
  function amounts(found) {
    const kept = `${count(found.examples)} examples of ${found.problem}.`;
    const notes = [kept];
    if (found.repeated) notes.push(`${count(found.repeated)} of them are repeated by the weight of their sample.`);
    if (found.distilled) notes.push("Their targets were written by another model (distilled data).");
    if (found.sampled < found.examples) notes.push(`Figures are over ${count(found.sampled)} of them, evenly spread.`);
    const left = Object.entries(found.dropped);
    if (!left.length) notes.push("None were dropped when the data was generated.");
    const tables = [
      left.length ? table("Dropped when the data was generated", ["Why", "Examples"], left.map(([why, many]) => [why, count(many)])) : null,
      Object.keys(found.repaired).length ? table("Repaired in the raw data", ["What", "Times"], Object.entries(found.repaired).map(([what, many]) => [what, count(many)])) : null,
    ];
    return [element("p", { class: "note" }, notes.join(" ")), element("div", { class: "columns" }, tables)];
  }

  function lengths(found) {
    const charts = found.features.filter((one) => one.lengths).map((one, index) => {
      const chart = new insight.Histogram(`Lengths of ${one.name}`);
      const draw = () => chart.show(one.lengths, index);
      draw();
      insight.onThemeChange(draw);
      return chart.node;
    });
    return charts.length ? [element("h2", {}, "Lengths"), element("div", { class: "charts" }, charts)] : [];
  }

  async function show(content) {
    const said = element("p", { class: "status", role: "status" });
    const tools = element("div", { class: "tools" });
    const place = element("div", { "aria-busy": "true" });
    content.append(tools, said, place);

    // Asks again for what the address says.
    async function look(runs) {
      const ticked = address.all("run").filter((name) => runs.includes(name));
      const run = runs.includes(address.get("of")) ? address.get("of") : ticked[0] || runs[0];
      const asked = { run, problem: address.get("problem"), split: address.get("split", "train") };
      const changed = (changes) => {
        address.set({ start: null, ...changes });
        look(runs);
      };
      const choices = [insight.choice("Run", runs, runs.indexOf(run), (i) => changed({ of: runs[i], problem: null, split: null, text: null }))];
      place.setAttribute("aria-busy", "true");
      place.replaceChildren();
      said.textContent = "Reading \u2026";
      try {
        const found = await insight.ask(`/insight/data?${new URLSearchParams(asked)}`);
        const { problems, problem, splits, split } = found;
        if (problems.length > 1) choices.push(insight.choice("Problem", problems, problems.indexOf(problem), (i) => changed({ of: run, problem: problems[i], split: null })));
        choices.push(insight.choice("Split", splits, splits.indexOf(split), (i) => changed({ of: run, split: splits[i] })));
        insight.replaceTools(tools, ...choices);
        said.textContent = "";
        const same = { run, problem, split };
        const isSampled = found.vocabularies.some((one) => one.examples < found.examples);
        const vocabularies = found.vocabularies.map((one, number) => insight.pieceTable(same, one, number, isSampled));
        place.replaceChildren(
          ...amounts(found), ...lengths(found), insight.exampleList(same),
          ...(vocabularies.length ? [element("h2", {}, "Vocabulary"), ...vocabularies] : []),
        );
      } catch (error) {
        insight.replaceTools(tools, ...choices);
        said.replaceChildren(insight.complaint(error));
      }
      place.setAttribute("aria-busy", "false");
    }

    try {
      const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.state !== "damaged").map((run) => run.run);
      if (!runs.length) throw new Error("no run can be read");
      await look(runs);
    } catch (error) {
      said.replaceChildren(insight.complaint(error));
    }
  }

  insight.start(show);
})((window.insight = window.insight || {}));
