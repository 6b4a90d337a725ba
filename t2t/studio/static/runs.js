"use strict";
// The page of all runs, up to date while some of them train.
(function (insight) {
  const { element, address } = insight;
  const LOOK_SECONDS = 5;

  function show(content) {
    let runs = [];
    let known = ""; // what is drawn, so that no button is replaced under a click while nothing is new
    const ticks = new Set(address.all("run"));
    const place = element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": "Table of runs" });
    const said = element("p", { class: "status", role: "status" });

    function changed(changes) {
      address.set(changes);
      draw();
    }

    const handlers = {
      sorted(name) {
        const isDown = address.get("sort", "run") === name && address.get("order") !== "down";
        changed({ sort: name, order: isDown ? "down" : null });
      },
      ticked(name, is) {
        is ? ticks.add(name) : ticks.delete(name);
        changed({ run: [...ticks] });
      },
      tickedAll(is) {
        for (const { run, state } of arranged()) is && state !== "damaged" ? ticks.add(run) : ticks.delete(run);
        changed({ run: [...ticks] });
      },
    };

    const isDown = () => address.get("order") === "down";
    const arranged = () => insight.arranged(runs, address.get("filter"), address.get("sort", "run"), isDown());

    function draw() {
      const rows = arranged();
      const focused = insight.focusPath(place);
      place.replaceChildren(insight.runTable(rows, ticks, address.get("sort", "run"), isDown(), handlers));
      insight.restoreFocus(place, focused);
      const training = runs.filter((run) => run.state === "training").length;
      const parts = [`${rows.length} of ${runs.length} runs`, `${training} training`, `${ticks.size} ticked`];
      const text = parts.join(", ");
      if (said.textContent !== text) said.textContent = text;
    }

    async function look() {
      try {
        runs = (await insight.ask("/insight/runs")).runs;
        const text = JSON.stringify(runs);
        if (text !== known) draw();
        known = text;
      } catch (error) {
        known = ""; // so that the next look replaces the complaint
        said.replaceChildren(insight.complaint(error));
      }
    }

    const filter = insight.search("Filter", address.get("filter"), (text) => changed({ filter: text }));
    const clear = element("button", { type: "button", onclick: () => (ticks.clear(), changed({ run: [] })) }, "Tick none");
    const hint = element("p", { class: "note" }, "Tick runs, then look at their curves and hparams, or compare what they write.");
    content.append(hint, element("div", { class: "tools" }, filter, clear), said, place);
    insight.keepLooking(look, LOOK_SECONDS);
  }

  // What has the focus within a place, as a way to find its like after it was drawn again.
  insight.focusPath = function (place) {
    const focused = document.activeElement;
    if (!place.contains(focused)) return null;
    for (const name of ["data-sort", "data-run"]) {
      if (focused.hasAttribute(name)) return `${focused.localName}[${name}="${CSS.escape(focused.getAttribute(name))}"]`;
    }
    return null;
  };

  insight.restoreFocus = function (place, path) {
    const found = path && place.querySelector(path);
    if (found) found.focus({ preventScroll: true });
  };

  insight.start(show);
})((window.insight = window.insight || {}));
