"use strict";
// A text, one model or two beside each other, and what is asked of the server for them.
(function (insight) {
  const { element, address } = insight;

  // One model's part of the page.
  class Panel {
    constructor(system, title) {
      this.system = system;
      this.turn = 0;
      this.status = element("p", { class: "status", role: "status" });
      this.figure = element("div", {});
      this.beam = element("div", {});
      this.alternatives = element("div", { "aria-live": "polite" });
      const attributes = { class: "panel", "aria-label": title, "data-model": system.model };
      this.node = element("section", attributes, this.status, this.figure, this.alternatives, this.beam);
    }

    async show(source, target) {
      this.source = source;
      this.status.textContent = "Loading the model \u2026";
      try {
        const { step, checkpoint } = await insight.load(this.system);
        // Later questions are to the same weights, however far training has come by then.
        if (this.system.checkpoint) this.system = { ...this.system, checkpoint };
        this.status.textContent = `${this.system.model} after ${insight.count(step)} updates`;
      } catch (error) {
        this.status.replaceChildren(insight.complaint(error));
        return;
      }
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
        const answer = await insight.ask(path, { ...this.system, source: this.source, ...data });
        if (place.number !== number) return null;
        place.replaceChildren(draw(answer));
        return answer;
      } catch (error) {
        if (place.number === number) place.replaceChildren(insight.complaint(error));
        return null;
      }
    }
  }

  // The systems that an address names, else ticked runs, else the first run, and the second where there are two.
  function preset(runs) {
    if (address.get("a")) return [address.get("a"), address.get("b")];
    const ticked = address.all("run").filter((name) => runs.includes(name));
    const [first, second] = ticked.length ? ticked : runs.length === 2 ? runs : runs.slice(0, 1);
    return [first, second || ""];
  }

  function form(runs, panels) {
    const source = element("textarea", { id: "source", rows: 2, cols: 60, dir: "auto", required: true });
    const target = element("textarea", { id: "target", rows: 1, cols: 60, dir: "auto" });
    source.value = address.get("text");
    target.value = address.get("output");
    const changed = () => address.set({ a: first.text, b: second.text });
    const [a, b] = preset(runs);
    const first = new insight.SystemChoice("Model", runs, a, false, changed);
    const second = new insight.SystemChoice("beside", runs, b, true, changed);

    async function run(event) {
      if (event) event.preventDefault();
      panels.setAttribute("aria-busy", "true");
      await Promise.all([first.ready, second.ready]);
      address.set({ a: first.text, b: second.text, text: source.value, output: target.value });
      const chosen = [...new Map([first, second].filter((one) => !one.isNone).map((one) => [one.text, one])).values()];
      const wanted = chosen.map((one) => new Panel(one.system, one.text));
      panels.replaceChildren(...wanted.map((panel) => panel.node));
      for (const panel of wanted) await panel.show(source.value, target.value || null);
      panels.setAttribute("aria-busy", "false");
    }

    source.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) run(event);
    });
    const node = element(
      "form",
      { class: "ask", onsubmit: run },
      element("p", {}, element("label", { for: "source" }, "Text"), source),
      element("p", {}, element("label", { for: "target" }, "Output (empty: the model's best)"), target),
      element("div", { class: "tools" }, first.node, second.node, element("button", { type: "submit", id: "go", class: "main" }, "Translate")),
    );
    return { node, run, source };
  }

  async function show(content) {
    if (address.get("example")) return insight.showExample(content);
    try {
      const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.has_checkpoints).map((run) => run.run);
      if (!runs.length) throw new Error("no run has a checkpoint yet");
      const panels = element("div", { class: "panels-side-by-side", "aria-busy": "false" });
      const { node, run, source } = form(runs, panels);
      content.append(node, panels);
      source.focus();
      if (source.value) run();
    } catch (error) {
      content.append(insight.complaint(error));
    }
  }

  insight.start(show);
})((window.insight = window.insight || {}));
