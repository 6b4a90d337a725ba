"use strict";
// A beam as a tree of nested lists: what was held, what was given up when, what came first. Runs without a fork are one
// line. Choosing a piece shows what else might have come there; choosing one of these forces it.
(function (insight) {
  const { element, shown } = insight;

  const SAID = {
    kept: () => "",
    pruned: (node) => `pruned at step ${node.step}`,
    stopped: (node) => `held when the search ended, step ${node.step}`,
    finished: (node) => `${node.rank ? `${node.rank}.` : "complete, displaced,"} score ${node.score.toFixed(4)}`,
  };

  // beam: as the server gives it; choose(ids before a piece, after the given ones): asks for alternatives, null where
  // nobody can be asked.
  insight.beam = function (beam, choose) {
    const below = new Map([[-1, []]]);
    beam.nodes.forEach((node, index) => {
      below.set(index, []);
      below.get(node.parent).push(index);
    });
    const prefixes = []; // the ids before each node
    beam.nodes.forEach((node, index) => {
      prefixes[index] = node.parent < 0 ? [] : [...prefixes[node.parent], beam.nodes[node.parent].id];
    });

    function piece(index) {
      const node = beam.nodes[index];
      const said = `log-probability ${node.log_prob.toFixed(4)}`;
      const before = prefixes[index];
      const isOpen = choose && before.length >= beam.given;
      if (!isOpen) return element("span", { class: "beam-piece", title: said }, shown(node.piece), " ");
      const title = `${said}; click for alternatives`;
      const attributes = { type: "button", class: "beam-piece", title, onclick: () => choose(before.slice(beam.given)) };
      return element("button", attributes, shown(node.piece));
    }

    // From a node on: its run without forks, then a list of what follows.
    function item(start) {
      const run = [start];
      while (below.get(run[run.length - 1]).length === 1) run.push(below.get(run[run.length - 1])[0]);
      const last = run[run.length - 1];
      const node = beam.nodes[last];
      const said = SAID[node.state](node);
      const followers = below.get(last);
      return element(
        "li",
        { class: `beam-${node.state}`, "data-rank": node.rank || false },
        run.map(piece),
        element("span", { class: "log-prob" }, ` ${node.log_prob.toFixed(3)} `),
        said ? element("span", { class: "said" }, said) : null,
        node.text !== undefined ? element("span", { class: "beam-text", dir: "auto" }, ` ${node.text}`) : null,
        followers.length ? element("ul", {}, followers.map(item)) : null,
      );
    }

    const held = beam.nodes.length;
    return element(
      "section",
      { class: "beam" },
      element("h3", {}, "Beam"),
      element("p", { class: "note" }, `${held} hypotheses held in ${beam.steps} steps; numbers are log-probabilities from the first piece on.`),
      element("ul", {}, below.get(-1).map(item)),
    );
  };

  // found: as the server gives it; force(ids): searches again from there.
  insight.alternatives = function (found, force) {
    const start = found.prefix.map((one) => shown(one.piece)).join(" ") || "the beginning";
    const prefix = found.prefix.map((one) => one.id);
    const rows = found.next.map((one) => {
      const probability = Math.exp(one.log_prob);
      const bar = element("span", { class: "bar-of-value", "aria-hidden": "true" });
      bar.style.width = `${(100 * probability).toFixed(2)}%`;
      // What ends the output leaves nothing to be forced.
      const clicked = () => force([...prefix, one.id]);
      const button = () => element("button", { type: "button", class: "force", onclick: clicked }, shown(one.piece));
      const head = element("th", { scope: "row" }, one.id === 1 ? shown(one.piece) : button());
      const number = element("td", {}, probability.toFixed(4));
      return element("tr", {}, head, number, element("td", { class: "bars" }, bar));
    });
    const caption = element("caption", {}, `After ${start}; choose a piece to force it`);
    const table = element("table", {}, caption, element("tbody", {}, rows));
    return element("section", { class: "alternatives" }, table);
  };
})((window.insight = window.insight || {}));
