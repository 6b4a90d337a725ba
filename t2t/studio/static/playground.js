"use strict";
// A text, models beside each other, and how they are asked; what is on show as a file.
(function (insight) {
  const { element, address } = insight;
  const NAMES = ["a", "b", "c", "d"]; // of models in the address; as many as stay in memory
  const FILE = "translation.html";

  // The systems that an address names, else ticked runs, else the first run, and the second where there are two.
  function preset(runs) {
    const named = NAMES.map((name) => address.get(name)).filter(Boolean);
    if (named.length) return named;
    const ticked = address.all("run").filter((name) => runs.includes(name));
    if (ticked.length) return ticked.slice(0, NAMES.length);
    return runs.length === 2 ? runs : runs.slice(0, 1);
  }

  // The choices of models: one, and others that may be none.
  class Models {
    constructor(runs) {
      this.runs = runs;
      this.node = element("span", { class: "tools models" });
      this.another = element("button", { type: "button", onclick: () => this.add("") }, "Another model");
      this.choices = [];
      for (const text of [...preset(runs), ""].slice(0, NAMES.length)) this.add(text);
    }

    add(text) {
      const changed = () => this.keep();
      const label = this.choices.length ? "beside" : "Model";
      const choice = new insight.SystemChoice(label, this.runs, text, this.choices.length > 0, changed);
      this.choices.push(choice);
      this.another.remove();
      this.node.append(choice.node, ...(this.choices.length < NAMES.length ? [this.another] : []));
    }

    keep() {
      const texts = this.choices.map((choice) => choice.text);
      address.set(Object.fromEntries(NAMES.map((name, place) => [name, texts[place] || null])));
    }

    // Those that are chosen, each once, when it is known which checkpoints there are.
    async chosen() {
      await Promise.all(this.choices.map((choice) => choice.ready));
      this.keep();
      return [...new Map(this.choices.filter((one) => !one.isNone).map((one) => [one.text, one])).values()];
    }
  }

  // JSON that cannot close the script element around it.
  const safeJson = (data) =>
    JSON.stringify(data).replace(/[<>&\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);

  // Gives what is on show as one file, a page that needs no network.
  async function save(views) {
    const page = await (await fetch("/insight/view")).text();
    const whole = page.replace('id="figures">[]<', () => `id="figures">${safeJson(views)}<`);
    const href = URL.createObjectURL(new Blob([whole], { type: "text/html" }));
    const link = element("a", { href, download: FILE, hidden: true });
    document.body.append(link); // a link that is in no page may lose its download
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  }

  function build(runs) {
    const panels = element("div", { class: "panels-side-by-side", "aria-busy": "false" });
    const source = element("textarea", { id: "source", rows: 2, cols: 60, dir: "auto", required: true });
    const target = element("textarea", { id: "target", rows: 1, cols: 60, dir: "auto" });
    source.value = address.get("text");
    target.value = address.get("output");
    let shownPanels = [];
    let turn = 0;
    const again = () => (shownPanels.length ? run() : search.keep());
    const search = new insight.SearchForm(() => again());
    const models = new Models(runs);
    const saved = () => save(shownPanels.map((panel) => panel.view).filter(Boolean));
    const saving = element("button", { type: "button", disabled: true, onclick: saved }, "Save as a file");

    // The first model says which fields are read; those of an address that are not are left out of the request.
    function know(panel) {
      if (panel !== shownPanels[0]) return;
      search.ownSearch = panel.search;
      search.keep();
    }

    async function run(event) {
      if (event) event.preventDefault();
      const mine = ++turn;
      panels.setAttribute("aria-busy", "true");
      const chosen = await models.chosen();
      if (mine !== turn) return;
      search.keep();
      address.set({ text: source.value, output: target.value });
      shownPanels = chosen.map((one) => new insight.Panel(one.system, one.text, search));
      panels.replaceChildren(...shownPanels.map((panel) => panel.node));
      for (const panel of shownPanels) {
        await panel.show(source.value, target.value || null, () => know(panel));
        if (mine !== turn) return; // something else was asked for meanwhile
      }
      saving.disabled = false;
      panels.setAttribute("aria-busy", "false");
    }

    source.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) run(event);
    });
    const go = element("button", { type: "submit", id: "go", class: "main" }, "Translate");
    const form = element(
      "form",
      { class: "ask", onsubmit: run },
      element("p", {}, element("label", { for: "source" }, "Text"), source),
      element("p", {}, element("label", { for: "target" }, "Output (empty: the model's best)"), target),
      search.node,
      element("div", { class: "tools" }, models.node, go, saving),
    );
    return { parts: [form, panels], run, source };
  }

  async function show(content) {
    if (address.get("example")) return insight.showExample(content);
    try {
      const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.has_checkpoints).map((run) => run.run);
      if (!runs.length) throw new Error("no run has a checkpoint yet");
      const { parts, run, source } = build(runs);
      content.append(...parts);
      source.focus();
      if (source.value) run();
    } catch (error) {
      content.append(insight.complaint(error));
    }
  }

  insight.start(show);
})((window.insight = window.insight || {}));
