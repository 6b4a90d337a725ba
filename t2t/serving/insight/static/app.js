"use strict";
// The page: a text, one model or two beside each other, and what is asked of the server for them.
(function (insight) {
  const { element } = insight;
  const NONE = "none";

  async function ask(path, data) {
    const init = data && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data) };
    const response = await fetch(path, init);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error || response.statusText);
    return answer;
  }

  // One model's part of the page.
  class Panel {
    constructor(model) {
      this.model = model;
      this.turn = 0;
      this.figure = element("div", {});
      this.beam = element("div", {});
      this.alternatives = element("div", { "aria-live": "polite" });
      const attributes = { class: "panel", "aria-label": model, "data-model": model };
      this.node = element("section", attributes, this.figure, this.alternatives, this.beam);
    }

    async show(source, target) {
      this.source = source;
      await this.showFigure({ target });
      await this.showBeam([]);
    }

    // Another output: the best that begins with these ids.
    async force(prefix) {
      const turn = ++this.turn;
      this.node.setAttribute("aria-busy", "true");
      this.figure.replaceChildren();
      const beam = await this.showBeam(prefix);
      if (turn !== this.turn) return; // another piece was forced meanwhile
      const best = beam && beam.nodes.find((node) => node.rank === 1);
      if (best) await this.showFigure({ ids: best.ids });
      if (turn === this.turn) this.node.setAttribute("aria-busy", "false");
    }

    async showFigure(output) {
      await this.ask(this.figure, "/insight/figure", output, insight.figure);
    }

    async showBeam(prefix) {
      this.alternatives.number = (this.alternatives.number || 0) + 1; // what is on its way belongs to another beam
      this.alternatives.replaceChildren();
      const choose = (before) => this.choose(before);
      return this.ask(this.beam, "/insight/beam", { prefix }, (beam) => insight.beam(beam, choose));
    }

    async choose(prefix) {
      const draw = (found) => insight.alternatives(found, (ids) => this.force(ids));
      await this.ask(this.alternatives, "/insight/alternatives", { prefix, count: 12 }, draw);
    }

    // Draws an answer in its place and returns it; null where it failed, or where something else was asked meanwhile.
    async ask(place, path, data, draw) {
      const number = (place.number || 0) + 1;
      place.number = number;
      try {
        const answer = await ask(path, { model: this.model, source: this.source, ...data });
        if (place.number !== number) return null;
        place.replaceChildren(draw(answer));
        return answer;
      } catch (error) {
        if (place.number === number) place.replaceChildren(element("p", { class: "note error", role: "alert" }, error.message));
        return null;
      }
    }
  }

  function start() {
    const models = JSON.parse(document.getElementById("models").textContent);
    const seconds = [NONE, ...models];
    const chosen = { first: models[0], second: models[1] || NONE };
    const source = element("textarea", { id: "source", rows: 2, cols: 60, dir: "auto", required: true });
    const target = element("textarea", { id: "target", rows: 1, cols: 60, dir: "auto" });
    const panels = element("div", { class: "panels-side-by-side", "aria-busy": "false" });
    const curves = element("div", {});

    async function run(event) {
      event.preventDefault();
      const names = [...new Set([chosen.first, chosen.second])].filter((name) => name !== NONE);
      const wanted = names.map((name) => new Panel(name));
      panels.setAttribute("aria-busy", "true");
      panels.replaceChildren(...wanted.map((panel) => panel.node));
      for (const panel of wanted) await panel.show(source.value, target.value || null);
      panels.setAttribute("aria-busy", "false");
    }

    async function drawCurves() {
      const found = {};
      for (const model of models) {
        try {
          found[model] = await ask(`/insight/curves?model=${encodeURIComponent(model)}`);
        } catch (error) {
          curves.append(element("p", { class: "note" }, error.message));
        }
      }
      if (Object.keys(found).length) curves.replaceChildren(insight.curves(found));
    }

    source.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) run(event);
    });
    const form = element(
      "form",
      { class: "ask", onsubmit: run },
      element("p", {}, element("label", { for: "source" }, "Text"), source),
      element("p", {}, element("label", { for: "target" }, "Output (empty: the model's best)"), target),
      element(
        "p",
        { class: "tools" },
        insight.choice("Model", models, 0, (i) => (chosen.first = models[i])),
        insight.choice("beside", seconds, seconds.indexOf(chosen.second), (i) => (chosen.second = seconds[i])),
        element("button", { type: "submit", id: "go" }, "Translate"),
        element("button", { type: "button", id: "show-curves", onclick: drawCurves }, "Training curves"),
      ),
    );
    document.querySelector("main").replaceChildren(form, panels, curves);
    source.focus();
  }

  document.addEventListener("DOMContentLoaded", start);
})((window.insight = window.insight || {}));
