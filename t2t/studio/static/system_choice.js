"use strict";
// A choice of a system: a run, and which of its checkpoints.
(function (insight) {
  const { element } = insight;
  const NONE = "none";
  const LATEST = "latest";

  // Checkpoints of a run as [what is asked for, what is shown], the newest first.
  function options(found) {
    const best = found.best === null ? [] : [["best", `best (${found.best})`]];
    const newest = found.latest === null ? [] : [[LATEST, `latest (${found.latest})`]];
    const steps = found.steps.toReversed().map((step) => [String(step), String(step)]);
    return [...(found.served ? [["", "as served"]] : []), ...newest, ...best, ...found.names.map((name) => [name, name]), ...steps];
  }

  // A system as an address writes it: run@checkpoint, or the name of a run, which may contain @ as well.
  const parse = (text, runs) => {
    if (runs.includes(text)) return [text, null];
    const at = text.lastIndexOf("@");
    return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)];
  };

  insight.SystemChoice = class {
    // label: of the choice; runs: names; text: run@checkpoint, or empty for none; optional: whether there may be none.
    // changed(): another system was chosen.
    constructor(label, runs, text, optional, changed) {
      this.label = label;
      this.runs = optional ? [NONE, ...runs] : runs;
      this.changed = changed;
      this.optional = optional;
      const [run, checkpoint] = parse(text, this.runs);
      this.index = Math.max(this.runs.lastIndexOf(run), 0); // the last, as a run may have the name of none
      this.place = element("span", {});
      this.node = element(
        "span",
        { class: "system" },
        insight.choice(label, this.runs, this.index, (index) => this.choose(index)),
        this.place,
      );
      this.ready = this.look(checkpoint);
    }

    get run() {
      return this.runs[this.index];
    }

    get isNone() {
      return this.optional && this.index === 0;
    }

    // Of the run and the checkpoint, for a request.
    get system() {
      return { model: this.run, ...(this.checkpoint ? { checkpoint: this.checkpoint } : {}) };
    }

    get text() {
      return this.isNone ? "" : `${this.run}@${this.checkpoint}`;
    }

    async choose(index) {
      this.index = index;
      this.ready = this.look(null);
      await this.ready;
      this.changed();
    }

    // Asks which checkpoints there are, and chooses one, the first where it is null.
    async look(checkpoint) {
      this.place.replaceChildren();
      this.checkpoint = "";
      if (this.isNone) return;
      const { run, index: place } = this;
      try {
        const found = await insight.ask(`/insight/checkpoints?run=${encodeURIComponent(run)}`);
        if (place !== this.index) return;
        const values = options(found);
        if (!values.length) throw new Error("no checkpoint yet");
        const index = Math.max(values.findIndex(([value]) => value === checkpoint), 0);
        this.checkpoint = values[index][0];
        const chosen = (i) => {
          this.checkpoint = values[i][0];
          this.changed();
        };
        const label = ["Checkpoint", element("span", { class: "hidden" }, ` of ${this.label}`)];
        this.place.replaceChildren(" ", insight.choice(label, values.map(([, shown]) => shown), index, chosen));
      } catch (error) {
        this.place.replaceChildren(" ", element("span", { class: "error" }, error.message));
      }
    }
  };
})((window.insight = window.insight || {}));
