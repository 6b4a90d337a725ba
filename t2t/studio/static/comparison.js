"use strict";
// What tells two systems apart: their scores, where one is better, and sentences with the words that differ.
(function (insight) {
  const { element, count } = insight;
  const fixed = (value) => value.toFixed(1);
  const signed = function (value) {
    const size = fixed(Math.abs(value));
    return `${Number(size) === 0 ? "\u00b1" : value > 0 ? "+" : "\u2212"}${size}`;
  };
  const ORDERS = ["largest gains first", "largest losses first", "as in the set"];
  const BY = ["chrf", "bleu"];

  const cells = (tag, texts, attributes = {}) => texts.map((text) => element(tag, attributes, text));

  function table(caption, heads, rows) {
    const head = element("thead", {}, element("tr", {}, cells("th", heads, { scope: "col" })));
    const body = rows.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row" }, first), cells("td", rest)));
    return element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": caption }, element("table", {}, element("caption", {}, caption), head, element("tbody", {}, body)));
  }

  function scores(found, names) {
    const rows = [];
    for (let place = 0; place < found.scores.length; place += 2) {
      const [first, second] = found.scores.slice(place, place + 2);
      const interval = (score) => `${fixed(score.value)} (${fixed(score.mean)} \u00b1 ${fixed(score.interval)})`;
      const chance = second.p_value < 0.001 ? "< 0.001" : second.p_value.toFixed(3);
      const verdict = second.p_value < 0.05 ? "significant" : "may be chance";
      rows.push([first.metric, interval(first), interval(second), signed(second.value - first.value), `${chance}, ${verdict}`]);
    }
    const caption = "Scores, with mean and 95 % interval of 1,000 samples of the lines; p by paired bootstrap resampling";
    return table(caption, ["Metric", ...names, "Difference", "p"], rows);
  }

  function buckets(caption, rows, names, unit) {
    const shown = rows.map((row) => [row.label, count(row.count), ...row.values.map(fixed), signed(row.values[1] - row.values[0])]);
    return table(caption, [unit, "Count", ...names, "Difference"], shown);
  }

  const words = (tag, pieces) => pieces.flatMap(([text, isOwn], place) => [place ? " " : null, isOwn ? element(tag, {}, text) : text]);

  function sentence(one, number, source, names, by) {
    const gain = one[by][1] - one[by][0];
    const line = (name, text, score) => [
      element("dt", {}, name, score === null ? null : element("span", { class: "unit" }, ` ${fixed(score)}`)),
      element("dd", { dir: "auto" }, text),
    ];
    return element(
      "li",
      { class: gain > 0 ? "gain" : gain < 0 ? "loss" : null, "data-line": number },
      element("p", { class: "change" }, element("strong", {}, signed(gain)), ` ${by === "bleu" ? "BLEU" : "chrF"}, line ${number}`),
      element(
        "dl",
        {},
        line("Input", source, null),
        line("Reference", one.reference, null),
        line(names[0], words("del", one.outputs[0]), one[by][0]),
        line(names[1], words("ins", one.outputs[1]), one[by][1]),
      ),
    );
  }

  // found: as the server gives it; names: of the systems; sources: the inputs; view: {order, by}; changed(view).
  insight.comparison = function (found, names, sources, view, changed) {
    const list = element("ol", { class: "sentences" });
    const state = { order: Math.max(ORDERS.indexOf(view.order), 0), by: Math.max(BY.indexOf(view.by), 0) };

    function draw() {
      const by = BY[state.by];
      const gain = (place) => found.sentences[place][by][1] - found.sentences[place][by][0];
      const places = [...found.sentences.keys()];
      if (state.order < 2) places.sort((a, b) => (state.order ? gain(a) - gain(b) : gain(b) - gain(a)));
      list.replaceChildren(...places.map((place) => sentence(found.sentences[place], place + 1, sources[place], names, by)));
    }

    function choose(name, values, index) {
      state[name] = index;
      changed({ [name]: index ? values[index] : null });
      draw();
    }

    const same = found.sentences.filter((one) => one.outputs.every((pieces) => pieces.every(([, isOwn]) => !isOwn))).length;
    draw();
    return element(
      "section",
      { class: "comparison", "aria-label": "Comparison" },
      element("h2", {}, "Scores"),
      scores(found, names),
      element("h2", {}, "Where they differ"),
      element(
        "div",
        { class: "columns" },
        buckets("BLEU by the length of the reference", found.lengths, names, "Words"),
        buckets("F1 of words, in percent, by how often they occur in the references", found.frequencies, names, "Occurrences"),
      ),
      element("h2", {}, "Sentences"),
      element("p", { class: "note" }, `${count(same)} of ${count(found.sentences.length)} outputs are the same. Words that only the first system wrote are struck out, those of the second underlined.`),
      element(
        "div",
        { class: "tools" },
        insight.choice("Order", ORDERS, state.order, (index) => choose("order", ORDERS, index)),
        insight.choice("By", ["chrF of the sentence", "BLEU of the sentence"], state.by, (index) => choose("by", BY, index)),
      ),
      list,
    );
  };
})((window.insight = window.insight || {}));
