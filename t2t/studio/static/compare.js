"use strict";
// Two systems on the same lines: two runs, or two checkpoints of one as its training went on.
(function (insight) {
  const { element, address } = insight;
  const OWN = "lines of your own";
  const COUNTS = ["20", "50", "100"];

  // Blank lines count, so that inputs and references stay pairs; those at the end do not.
  const linesOf = (text) => (text.trim() ? text.trimEnd().split("\n").map((line) => line.trim()) : []);

  // The lines that are compared: {sources, references}.
  async function readLines(choices, form, most) {
    if (choices.lines === OWN) {
      const [sources, references] = [linesOf(form.sources.value), linesOf(form.references.value)];
      if (!sources.length || sources.length !== references.length) {
        throw new Error(`${sources.length} inputs and ${references.length} references: give as many of both, a line each`);
      }
      if (sources.length > most) throw new Error(`${sources.length} lines, at most ${most}: give fewer`);
      return { sources, references };
    }
    const asked = new URLSearchParams({ run: choices.first.run, split: choices.lines, count: choices.count });
    return insight.ask(`/insight/examples?${asked}`);
  }

  async function compare(choices, form, most, say) {
    const { sources, references } = await readLines(choices, form, most);
    const outputs = [];
    let language = "";
    for (const choice of [choices.first, choices.second]) {
      say(`Loading ${choice.text}`);
      const loaded = await insight.load(choice.system);
      const system = { ...choice.system, checkpoint: choice.checkpoint ? String(loaded.checkpoint) : undefined };
      language = loaded.language;
      say(`${choice.text} translates ${sources.length} lines`);
      outputs.push((await insight.ask("/insight/outputs", { ...system, texts: sources })).outputs);
    }
    say("Comparing");
    const [first, second] = outputs;
    return { sources, found: await insight.ask("/insight/comparison", { references, first, second, language }) };
  }

  // The last checkpoints of two runs that are ticked, or the first and the last of one.
  async function preset(runs) {
    const ticked = address.all("run").filter((name) => runs.includes(name));
    if (ticked.length > 1) return [ticked[0], ticked[1]];
    const run = ticked[0] || runs[0];
    const { steps } = await insight.ask(`/insight/checkpoints?run=${encodeURIComponent(run)}`);
    return steps.length ? [`${run}@${steps[0]}`, `${run}@${steps.at(-1)}`] : [run, run];
  }

  async function show(content, facts) {
    const said = element("p", { class: "status", role: "status" });
    const result = element("div", {});
    content.append(said);
    try {
      const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.has_checkpoints).map((run) => run.run);
      if (!runs.length) throw new Error("no run has a checkpoint yet");
      const [a, b] = address.get("a") ? [address.get("a"), address.get("b")] : await preset(runs);
      const changed = () => address.set({ a: first.text, b: second.text, shown: null });
      const first = new insight.SystemChoice("First system", runs, a, false, changed);
      const second = new insight.SystemChoice("Second system", runs, b, false, changed);
      const splits = facts.hasData ? ["dev", "test", OWN] : [OWN];
      const choices = { first, second, lines: splits.includes(address.get("lines")) ? address.get("lines") : splits[0], count: address.get("count", COUNTS[0]) };
      const form = {
        sources: element("textarea", { id: "sources", rows: 5, dir: "auto" }),
        references: element("textarea", { id: "references", rows: 5, dir: "auto" }),
      };
      const own = element("div", { class: "columns" }, ["sources", "references"].map((name) =>
        element("p", { class: "ask" }, element("label", { for: name }, name === "sources" ? "Inputs, a line each" : "References, a line each"), form[name])));
      const counted = insight.choice("How many", COUNTS, Math.max(COUNTS.indexOf(choices.count), 0), (i) => {
        choices.count = COUNTS[i];
        address.set({ count: COUNTS[i], shown: null });
      });
      const adapt = () => ([own.hidden, counted.hidden] = [choices.lines !== OWN, choices.lines === OWN]);

      async function run() {
        go.disabled = true;
        result.replaceChildren();
        try {
          await Promise.all([first.ready, second.ready]);
          const { sources, found } = await compare(choices, form, facts.mostTexts, (text) => (said.textContent = `${text} \u2026`));
          const names = [first.text, second.text];
          address.set({ a: names[0], b: names[1], shown: choices.lines === OWN ? null : "1" });
          const view = { order: address.get("order"), by: address.get("by") };
          result.replaceChildren(insight.comparison(found, names, sources, view, address.set));
          said.textContent = `${sources.length} lines compared.`;
        } catch (error) {
          said.replaceChildren(insight.complaint(error));
        }
        go.disabled = false;
      }

      const go = element("button", { type: "submit", class: "main" }, "Compare");
      const asked = element(
        "form",
        { onsubmit: (event) => (event.preventDefault(), run()) },
        element("div", { class: "tools" }, first.node, second.node),
        element(
          "div",
          { class: "tools" },
          insight.choice("Lines", splits, splits.indexOf(choices.lines), (i) => {
            choices.lines = splits[i];
            address.set({ lines: splits[i], shown: null });
            adapt();
          }),
          counted,
          go,
        ),
        own,
      );
      adapt();
      const hint = facts.hasData ? "" : " Started with --data_dir, this page also has the dev and test sets of the runs.";
      said.before(element("p", { class: "note" }, `Both systems translate the same lines; models are loaded when they are needed.${hint}`), asked);
      content.append(result);
      if (address.get("shown") === "1") run();
    } catch (error) {
      said.replaceChildren(insight.complaint(error));
    }
  }

  insight.start(show);
})((window.insight = window.insight || {}));
