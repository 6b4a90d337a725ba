"use strict";
// One model's part of the Playground: it writes an output, and shows what belongs to it.
(function (insight) {
  const { element, shown } = insight;

  const plain = (text) => element("p", { class: "note", dir: "auto" }, text);

  insight.Panel = class {
    // system: run and checkpoint; form: the `SearchForm` that says how outputs are searched.
    constructor(system, title, form) {
      Object.assign(this, { system, form, turn: 0, best: null });
      this.status = element("p", { class: "status", role: "status" });
      this.begun = element("div", { class: "begun" });
      this.written = element("p", { class: "written", dir: "auto", "aria-live": "polite" });
      this.outputs = element("div", {});
      this.figure = element("div", { onmouseup: () => this.offerSelection() });
      this.beam = element("div", {});
      this.alternatives = element("div", { "aria-live": "polite" });
      const attributes = { class: "panel", "aria-label": title, "data-model": system.model };
      const parts = [this.status, this.begun, this.written, this.outputs, this.figure, this.alternatives, this.beam];
      this.node = element("section", attributes, parts);
    }

    // What is on show, for a page of its own: a figure with its beam; null before there is one.
    get view() {
      if (!this.figure.answer) return null;
      const { textContent: title } = this.status;
      return { ...this.figure.answer, title, search: this.form.said, beam: this.beam.answer || null };
    }

    // Loads the model, calls loaded(), and shows a given output, its own where there is none.
    async show(source, target, loaded) {
      this.source = source;
      this.status.textContent = "Loading the model \u2026";
      try {
        const { step, checkpoint, search } = await insight.load(this.system);
        // Later questions are to the same weights, however far training has come by then.
        if (this.system.checkpoint) this.system = { ...this.system, checkpoint };
        this.search = search;
        this.status.textContent = `${this.system.model} after ${insight.count(step)} updates`;
      } catch (error) {
        this.status.replaceChildren(insight.complaint(error));
        return;
      }
      loaded();
      await this.write([], target);
    }

    // Shows the best output that begins with these ids, or one that is given.
    async write(prefix, target = null) {
      const turn = ++this.turn;
      this.node.setAttribute("aria-busy", "true");
      this.sayBeginning(prefix);
      for (const place of [this.figure, this.beam, this.alternatives, this.outputs]) this.clear(place);
      try {
        const output = target ? { target } : { ids: (await this.searched(prefix, turn)).ids };
        if (turn !== this.turn) return; // another one was asked for meanwhile
        await this.showFigure(output);
        if (this.search && this.form.isBeam(this.search)) await this.showBeam(prefix);
      } catch (error) {
        if (turn === this.turn) this.outputs.replaceChildren(insight.complaint(error));
      }
      if (turn !== this.turn) return;
      this.written.replaceChildren();
      this.node.setAttribute("aria-busy", "false");
    }

    // Searches, shows the text as it grows, and returns the best output.
    async searched(prefix, turn) {
      let found = [];
      const asked = { ...this.system, source: this.source, ...this.form.request, prefix };
      await insight.askInParts("/insight/search", asked, (part) => {
        if (turn !== this.turn) return;
        if (part.outputs) found = part.outputs;
        else this.written.textContent = part.text;
      });
      if (found.length > 1 && turn === this.turn) this.outputs.replaceChildren(this.list(found));
      return found[0];
    }

    // Several outputs, the best first; each can be looked into.
    list(found) {
      const number = (value) => (value === null ? "" : value.toFixed(3));
      const rows = found.map((one, place) => {
        const look = element("button", { type: "button", dir: "auto", onclick: () => this.showFigure({ ids: one.ids }) }, one.text || "\u2205");
        const head = element("th", { scope: "row" }, String(place + 1));
        return element("tr", {}, head, element("td", {}, look), element("td", {}, number(one.score)), element("td", {}, number(one.log_prob)));
      });
      const heads = ["", "Text", "Score", "Log-probability"].map((text) => (text ? element("th", { scope: "col" }, text) : element("td", {})));
      const head = element("thead", {}, element("tr", {}, heads));
      return element("div", { class: "scrolled" }, element("table", { class: "found" }, element("caption", {}, "Outputs; choose one to look into it"), head, element("tbody", {}, rows)));
    }

    sayBeginning(prefix) {
      const drop = element("button", { type: "button", class: "drop", onclick: () => this.write([]) }, "Drop this beginning");
      this.begun.replaceChildren(...(prefix.length ? [plain(`Begins with ${prefix.length} pieces that were chosen.`), drop] : []));
    }

    async showFigure(output) {
      const draw = (figure) => insight.figure(figure, (index) => this.chooseWritten(figure, index));
      await this.ask(this.figure, "/insight/figure", output, draw);
    }

    async showBeam(prefix) {
      const choose = (before) => this.choose(before);
      return this.ask(this.beam, "/insight/beam", { ...this.form.request, prefix }, (beam) => insight.beam(beam, choose));
    }

    // A piece of the output was clicked: what else might have come there, and what its word may be asked to do. The
    // server itself puts the given ids in front.
    chooseWritten(figure, index) {
      const { word, piece } = figure.pieces[index];
      const words = figure.target.split(/\s+/).filter(Boolean);
      this.choose(figure.pieces.slice(figure.given, index).map((one) => one.id), word === null ? "" : words[word] || shown(piece));
    }

    async choose(prefix, phrase = "") {
      const draw = (found) => {
        const table = insight.alternatives(found, (ids) => this.write(ids));
        return element("div", {}, table, phrase ? this.phraseTools(phrase) : null);
      };
      const found = await this.ask(this.alternatives, "/insight/alternatives", { prefix, count: 12 }, draw);
      if (found) this.alternatives.scrollIntoView({ block: "nearest" });
    }

    // A phrase of the output was marked.
    offerSelection() {
      const selection = window.getSelection();
      const output = this.figure.querySelector("dd.output");
      const phrase = selection.toString().trim();
      if (!phrase || !output || !output.contains(selection.anchorNode)) return;
      this.clear(this.alternatives);
      this.alternatives.append(this.phraseTools(phrase));
    }

    phraseTools(phrase) {
      const id = insight.fresh("phrase");
      const field = element("input", { type: "text", id, value: phrase, dir: "auto" });
      const ask = (name) => () => field.value.trim() && this.form.addPhrase(name, field.value.trim());
      return element(
        "p",
        { class: "tools phrase" },
        element("span", { class: "choice" }, element("label", { for: id }, "Phrase"), " ", field),
        element("button", { type: "button", class: "require", onclick: ask("constraints") }, "Require"),
        element("button", { type: "button", class: "forbid", onclick: ask("avoid") }, "Forbid"),
      );
    }

    // Empties a place; what is on its way to it comes to nothing.
    clear(place) {
      place.number = (place.number || 0) + 1;
      place.answer = null;
      place.replaceChildren();
    }

    // Draws an answer in its place and returns it; null where it failed, or where something else was asked meanwhile.
    async ask(place, path, data, draw) {
      const number = (place.number || 0) + 1;
      place.number = number;
      try {
        const answer = await insight.ask(path, { ...this.system, source: this.source, ...data });
        if (place.number !== number) return null;
        place.replaceChildren(draw(answer));
        place.answer = answer;
        return answer;
      } catch (error) {
        if (place.number === number) place.replaceChildren(insight.complaint(error));
        return null;
      }
    }
  };
})((window.insight = window.insight || {}));
