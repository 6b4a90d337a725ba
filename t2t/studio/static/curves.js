"use strict";
// Training curves of the ticked runs over each other, up to date while they train.
(function (insight) {
  const { element, address } = insight;
  const LOOK_SECONDS = 10;
  const MOST_RUNS = 50; // where none are ticked
  const AT_A_TIME = 10; // runs that are asked for together, so that the first are drawn early
  const PAUSE = 700; // milliseconds between two drawings while more is on its way
  const SMOOTHING = [1, 5, 21, 101, 501];
  const BY = ["updates", "hours"];

  function show(content, facts) {
    let names = []; // of the runs that are drawn
    let sizes = {}; // of what is known of each, as the table of runs had them before it was asked for
    let newest = {}; // sizes in that table
    const found = {}; // name of a run -> what the server said of it
    const charts = new Map();
    const grid = element("div", { class: "charts" });
    const legend = element("ul", { class: "legend", "aria-label": "Runs" });
    const said = element("p", { class: "status", role: "status" });
    const missing = element("p", { class: "note" });

    const range = () => (address.get("from") ? [Number(address.get("from")), Number(address.get("to"))] : null);
    const view = () => ({ by: address.get("by", "updates"), log: address.get("log") === "1", range: range() });

    // What is best known of a run comes first: scores of real outputs, then losses, then the rest.
    function order(name) {
      if (name.startsWith("dev/") && !name.includes("teacher_forced")) return 0;
      return name.endsWith("/loss") ? 1 : name.startsWith("dev/") ? 2 : 3;
    }

    function draw() {
      const filter = address.get("filter").toLowerCase();
      const figures = [...new Set(names.flatMap((run) => Object.keys((found[run] || { figures: {} }).figures)))];
      const shown = figures.filter((name) => name.toLowerCase().includes(filter));
      shown.sort((a, b) => order(a) - order(b) || a.localeCompare(b, "en"));
      for (const name of shown) {
        if (!charts.has(name)) charts.set(name, new insight.Chart(name, zoomed));
        const curves = names.flatMap((run, index) => {
          const curve = found[run] && found[run].figures[name];
          return curve ? [{ ...curve, run, index, note: found[run].notes[name] || "" }] : [];
        });
        charts.get(name).show(curves, view());
      }
      const nodes = shown.map((name) => charts.get(name).node);
      if (nodes.some((node, place) => grid.children[place] !== node) || grid.children.length !== nodes.length) grid.replaceChildren(...nodes);
      reset.hidden = !range();
      if (!nodes.length && names.length && Object.keys(sizes).length) said.textContent = figures.length ? "No figure has this in its name." : "These runs have no figures yet.";
      else said.textContent = "";
    }

    // Points of a curve: more than a chart has places for, fewer where there are many curves.
    const points = () => Math.round(Math.min(Math.max(15000 / names.length, 200), 1000));

    // Asks for runs of which there is something new, and draws what has come now and then.
    async function fetchCurves(runs) {
      const zoom = range();
      const wanted = () => JSON.stringify([view().by, address.get("smooth", "1"), range()]);
      const mine = wanted();
      const told = newest;
      let drawn = -PAUSE;
      for (let start = 0; start < runs.length; start += AT_A_TIME) {
        const asked = { by: view().by, smoothing: Number(address.get("smooth", "1")), most: points(), runs: runs.slice(start, start + AT_A_TIME) };
        if (zoom) [asked.start, asked.end] = zoom;
        const answer = await insight.ask("/insight/curves", asked);
        if (mine !== wanted()) return; // something else is looked at by now
        for (const [run, curves] of Object.entries(answer.runs)) {
          found[run] = curves;
          sizes[run] = told[run]; // a line that is not complete yet counts in the table alone
        }
        if (start + AT_A_TIME < runs.length && performance.now() - drawn < PAUSE) continue;
        draw();
        drawn = performance.now();
      }
    }

    function drawLegend() {
      legend.replaceChildren(...names.map((name, index) => element("li", {}, insight.swatch(index), element("span", {}, name))));
    }

    // The next look asks for all runs again, and replaces the complaint.
    function complain(error) {
      sizes = {};
      said.replaceChildren(insight.complaint(error));
    }

    async function look() {
      try {
        const { runs, shown, leftOut } = await insight.askForRuns(MOST_RUNS);
        missing.textContent = leftOut;
        newest = Object.fromEntries(runs.map((run) => [run.run, run.size]));
        if (shown.join("\n") !== names.join("\n")) {
          names = shown;
          drawLegend();
          draw(); // colours go by place
        }
        await fetchCurves(names.filter((name) => newest[name] !== sizes[name]));
        if (!names.length) draw();
      } catch (error) {
        complain(error);
      }
    }

    function changed(changes, isAskedAgain) {
      address.set(changes);
      if (!isAskedAgain) return draw();
      fetchCurves(names).catch(complain);
    }

    function zoomed(to) {
      changed({ from: to && String(to[0]), to: to && String(to[1]) }, true);
    }

    const picked = (values, name, otherwise) => Math.max(values.map(String).indexOf(address.get(name, otherwise)), 0);
    const reset = element("button", { type: "button", onclick: () => zoomed(null) }, "Show all");
    const smoothing = SMOOTHING.map((points) => (points === 1 ? "none" : `mean of ${points} points`));
    const tools = element(
      "div",
      { class: "tools" },
      insight.choice("By", BY, picked(BY, "by", "updates"), (i) => changed({ by: BY[i], from: null, to: null }, true)),
      insight.choice("Smoothing", smoothing, picked(SMOOTHING, "smooth", "1"), (i) => changed({ smooth: i ? String(SMOOTHING[i]) : null }, true)),
      insight.checkbox("Log scale", view().log, (is) => changed({ log: is ? "1" : null })),
      insight.search("Figures", address.get("filter"), (text) => changed({ filter: text })),
      reset,
    );
    const hint = element("p", { class: "note" }, `Drag across a chart to zoom in, double-click to see all. If none are ticked, up to ${MOST_RUNS} runs are drawn.`);
    content.append(hint, missing, tools, legend, said, grid);
    reset.hidden = true;
    insight.onThemeChange(draw);
    insight.keepLooking(look, LOOK_SECONDS);
  }

  insight.start(show);
})((window.insight = window.insight || {}));
