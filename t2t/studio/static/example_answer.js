"use strict";
// What a model answers to a picture or a sound of the data, and what in a picture its answer rests on.
(function (insight) {
  const { element, shape, address, number } = insight;
  // A picture under cells that are the darker, the more the answer rests on them.
  function overlay(found, url) {
    const { height, width, cell, drops } = found;
    const most = Math.max(...drops.flat().map(Math.abs), 1e-9);
    const cells = drops.flatMap((row, y) =>
      row.map((drop, x) =>
        shape("rect", {
          x: x * cell, y: y * cell, width: Math.min(cell, width - x * cell), height: Math.min(cell, height - y * cell),
          class: drop >= 0 ? "for" : "against", "fill-opacity": ((0.8 * Math.abs(drop)) / most).toFixed(3),
        }, shape("title", {}, `${number(drop)} nats`)),
      ),
    );
    const picture = shape("image", { href: url, width, height, class: "pixels" });
    const label = `Parts of the picture that "${found.answer}" rests on; covering one changes its log-probability by up to ${number(most)} nats`;
    return shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "saliency", role: "img", "aria-label": label }, picture, cells);
  }

  function saliency(found, url) {
    const most = Math.max(...found.drops.flat());
    const note = `How much the log-probability of "${found.answer}" falls when a square of the picture's mean colour covers a part: by up to ${number(most)} nats in the strongest orange; where it is blue, covering makes the answer more likely.`;
    const rows = found.drops.map((row, y) => element("tr", {}, element("th", { scope: "row" }, y + 1), row.map((drop) => element("td", {}, drop.toFixed(2)))));
    const head = element("tr", {}, element("td", {}), found.drops[0].map((_, x) => element("th", { scope: "col" }, x + 1)));
    const values = element("table", {}, element("caption", { class: "hidden" }, "Falls by rows and columns of the picture"), element("thead", {}, head), element("tbody", {}, rows));
    const scrolled = element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": "Values of the map" }, values);
    return element("div", {}, overlay(found, url), element("p", { class: "note" }, note), element("details", {}, element("summary", {}, "Values"), scrolled));
  }

  // A choice of a number from 0 on.
  function numberBox(label, value, changed) {
    const id = insight.fresh("number");
    const box = element("input", { type: "number", id, min: 0, step: 1, value, onchange: () => changed(box.value) });
    return element("span", { class: "choice" }, element("label", { for: id }, label), " ", box);
  }

  insight.showExample = async function (content) {
    const said = element("p", { class: "status", role: "status" });
    const place = element("div", { "aria-busy": "false" });
    const tools = element("div", { class: "tools" });
    content.append(tools, said, place);
    let turn = 0;

    async function showMap(asked, found, where) {
      where.replaceChildren(element("p", { class: "note" }, "Covering parts of the picture \u2026"));
      try {
        const map = await insight.askPatiently("/insight/occlusion", asked);
        where.replaceChildren(saliency(map, found.inputs.url));
      } catch (error) {
        where.replaceChildren(insight.complaint(error));
      }
    }

    function draw(asked, found) {
      const line = (name, one) => [element("dt", {}, name), element("dd", { dir: "auto" }, insight.media(one.media, name) || one.text)];
      const map = element("div", {});
      const names = (found.classes || []).map((one) => one.name);
      const answers = names.length > 1 ? insight.choice("Class", names, 0, (i) => showMap({ ...asked, class: names[i] }, found, map)) : null;
      place.replaceChildren(
        insight.media(found.inputs, `Inputs of example ${asked.example}`) || "",
        element("dl", {}, line("Reference", found.reference), line("Output", found.output)),
        found.classes ? insight.classes(found.classes) : "",
        found.has_map ? element("section", {}, element("h2", {}, "What the answer rests on"), answers, map) : "",
      );
      return found.has_map ? showMap(asked, found, map) : null;
    }

    try {
      const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.has_checkpoints).map((run) => run.run);
      if (!runs.length) throw new Error("no run has a checkpoint yet");

      async function look() {
        const own = ++turn;
        await system.ready;
        if (own !== turn) return;
        const asked = { ...system.system, split: address.get("split", "dev"), example: Number(address.get("example", "0")) };
        address.set({ a: system.text });
        said.textContent = "The model answers \u2026";
        place.setAttribute("aria-busy", "true");
        place.replaceChildren();
        try {
          const found = await insight.askPatiently("/insight/example", asked);
          if (own !== turn) return;
          said.textContent = `${system.run} after ${insight.count(found.step)} updates, example ${insight.count(asked.example)} of ${insight.count(found.total)} of ${found.problem}, ${asked.split}`;
          await draw(asked, found);
        } catch (error) {
          if (own === turn) said.replaceChildren(insight.complaint(error));
        }
        if (own === turn) place.setAttribute("aria-busy", "false");
      }

      const system = new insight.SystemChoice("Model", runs, address.get("a"), false, look);
      const changed = (example) => {
        address.set({ example });
        look();
      };
      tools.append(system.node, numberBox("Example", address.get("example"), changed));
      await look();
    } catch (error) {
      said.replaceChildren(insight.complaint(error));
    }
  };
})((window.insight = window.insight || {}));
