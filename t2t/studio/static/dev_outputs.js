"use strict";
// What a run wrote for sentences of its dev split, from evaluation to evaluation.
(function (insight) {
  const { element, address, count } = insight;
  const LOOK_SECONDS = 15;
  const VERSIONS = ["5", "20", "200"];
  const TAGS = { added: "ins", removed: "del" };

  const words = (pieces) => pieces.flatMap(([text, kind], place) => [place ? " " : null, kind in TAGS ? element(TAGS[kind], {}, text) : text]);
  const updates = (one) => (one.first === one.last ? count(one.first) : `${count(one.first)} to ${count(one.last)}`);

  function sentence(one, number) {
    const head = ["Updates", "chrF", "Output"].map((text) => element("th", { scope: "col" }, text));
    const rows = one.outputs.map((output) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, updates(output)),
        element("td", {}, output.chrf.toFixed(1)),
        element("td", { dir: "auto" }, words(output.words)),
      ),
    );
    const caption = element("caption", { class: "hidden" }, `Outputs for sentence ${number}`);
    const earlier = one.earlier ? element("p", { class: "note" }, `${count(one.earlier)} earlier outputs are not shown.`) : null;
    return element(
      "li",
      { "data-sentence": number },
      element("p", { class: "change" }, element("strong", {}, `Sentence ${number}`)),
      element(
        "dl",
        {},
        one.source === null ? null : [element("dt", {}, "Input"), element("dd", { dir: "auto" }, one.source)],
        element("dt", {}, "Reference"),
        element("dd", { dir: "auto" }, one.reference),
      ),
      element("table", { class: "versions" }, caption, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)),
      earlier,
    );
  }

  async function show(content) {
    const tools = element("div", { class: "tools" });
    const said = element("p", { class: "status", role: "status" });
    const list = element("ol", { class: "sentences" });
    let shown = ""; // what is drawn, so that nothing moves while nothing is new
    let turn = 0;
    const note = "Sentences of the dev split at each evaluation. Each output is compared with the one before it: words that went are struck out, new ones underlined.";
    content.append(element("p", { class: "note" }, note), tools, said, list);

    function draw(runs, run, found) {
      const changed = (changes) => {
        address.set(changes);
        look();
      };
      const place = Math.max(VERSIONS.indexOf(address.get("most", VERSIONS[0])), 0);
      insight.replaceTools(
        tools,
        insight.choice("Run", runs, runs.indexOf(run), (i) => changed({ of: runs[i], problem: null })),
        found.problems.length > 1 ? insight.choice("Problem", found.problems, found.problems.indexOf(found.problem), (i) => changed({ of: run, problem: found.problems[i] })) : "",
        insight.choice("Outputs of a sentence", VERSIONS, place, (i) => changed({ most: VERSIONS[i] })),
      );
      list.replaceChildren(...found.sentences.map((one, index) => sentence(one, index + 1)));
      const { steps } = found;
      said.textContent = steps.length
        ? `${count(found.sentences.length)} sentences at ${count(steps.length)} evaluations, from update ${count(steps[0])} to ${count(steps.at(-1))}.`
        : "This run has kept no outputs: it has not been evaluated by decoding yet, or an older version trained it.";
    }

    async function look() {
      const mine = ++turn;
      try {
        const runs = (await insight.ask("/insight/runs")).runs.filter((run) => run.state !== "damaged").map((run) => run.run);
        if (!runs.length) throw new Error("no run can be read");
        const ticked = address.all("run").filter((name) => runs.includes(name));
        const run = runs.includes(address.get("of")) ? address.get("of") : ticked[0] || runs[0];
        const query = new URLSearchParams({ run, problem: address.get("problem"), most: address.get("most", VERSIONS[0]) });
        const found = await insight.ask(`/insight/dev_outputs?${query}`);
        if (mine !== turn) return; // something else was asked for meanwhile
        const text = JSON.stringify([runs, run, found]);
        if (text !== shown) draw(runs, run, found);
        shown = text;
      } catch (error) {
        if (mine !== turn) return;
        shown = ""; // so that the next look replaces the complaint
        said.replaceChildren(insight.complaint(error));
      }
    }

    insight.keepLooking(look, LOOK_SECONDS);
  }

  insight.start(show);
})((window.insight = window.insight || {}));
