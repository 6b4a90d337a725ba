"use strict";
// What a model answers with beside text: a tree over words, probabilities of classes. And a figure, which is all of it.
(function (insight) {
  const { element, shape } = insight;
  const LEVEL = 42;
  const LETTER = 8.2;

  // Nodes come in the order in which they are written, each with the number of the node above it, -1 for the top.
  insight.tree = function (tree) {
    const count = tree.labels.length;
    const below = Array.from({ length: count }, () => []);
    const depth = new Array(count).fill(0);
    for (let i = 1; i < count; i++) {
      below[tree.parents[i]].push(i);
      depth[i] = depth[tree.parents[i]] + 1;
    }
    const deepest = Math.max(...depth);
    const x = new Array(count).fill(0);
    const y = depth.map((level, i) => 24 + LEVEL * (tree.words[i] ? deepest : level));
    let width = 10;
    for (let i = 0; i < count; i++) {
      if (below[i].length) continue;
      const room = Math.max(tree.labels[i].length, tree.labels[Math.max(tree.parents[i], 0)].length) * LETTER + 16;
      x[i] = width + room / 2;
      width += room;
    }
    for (let i = count - 1; i >= 0; i--) {
      if (below[i].length) x[i] = (x[below[i][0]] + x[below[i][below[i].length - 1]]) / 2;
    }
    const edges = tree.parents.map((up, i) =>
      up < 0 ? null : shape("line", { x1: x[up], y1: y[up] + 5, x2: x[i], y2: y[i] - 14, class: "edge" }),
    );
    const labels = tree.labels.map((text, i) =>
      shape("text", { x: x[i], y: y[i], "text-anchor": "middle", class: tree.words[i] ? "word" : "label" }, text),
    );
    const height = 24 + LEVEL * deepest + 14;
    const drawing = shape("svg", { width, height, role: "img", "aria-label": `Tree: ${tree.text}` }, edges, labels);
    return element("section", { class: "tree" }, element("h3", {}, "Tree"), element("div", { class: "scrolled" }, drawing));
  };

  insight.classes = function (classes) {
    const rows = classes.map((one) => {
      const bar = element("span", { class: "bar-of-value", "aria-hidden": "true" });
      bar.style.width = `${(100 * one.probability).toFixed(2)}%`;
      const number = element("td", {}, one.probability.toFixed(4));
      return element("tr", {}, element("th", { scope: "row" }, one.name), number, element("td", { class: "bars" }, bar));
    });
    const heads = ["Class", "Probability"].map((text) => element("th", { scope: "col" }, text));
    const head = element("thead", {}, element("tr", {}, heads, element("td", {})));
    return element("table", { class: "classes" }, element("caption", {}, "Probabilities"), head, element("tbody", {}, rows));
  };

  // choose(index): a piece of the output was clicked; left out where nothing follows from that.
  insight.figure = function (figure, choose = null) {
    const source = insight.words(figure.source);
    const words = source.filter((part) => part instanceof Element);
    const mark = (numbers) => words.forEach((word, number) => word.classList.toggle("aligned", numbers.includes(number)));
    const texts = [
      ["Input", source],
      ["Output", figure.target],
      ["Log-probability", figure.log_prob === null ? null : figure.log_prob.toFixed(3)],
      ["Search", figure.search || null],
    ].filter(([, text]) => text !== null);
    const said = (name, text) => element("dd", { class: name.toLowerCase(), dir: "auto" }, text);
    return element(
      "article",
      { class: "figure" },
      element("h2", {}, figure.title),
      insight.media(figure.media, "Output"),
      element("dl", {}, texts.map(([name, text]) => [element("dt", {}, name), said(name, text)])),
      figure.pieces && insight.pieces(figure, mark, choose),
      figure.classes && insight.classes(figure.classes),
      figure.tree && insight.tree(figure.tree),
      figure.maps ? insight.attention(figure.maps) : element("p", { class: "note" }, figure.note),
      figure.beam && insight.beam(figure.beam, null),
    );
  };

  // A page with its figures inside it.
  insight.showFigures = function () {
    const figures = JSON.parse(document.getElementById("figures").textContent);
    document.querySelector("main").append(...figures.map((figure) => insight.figure(figure)));
  };
})((window.insight = window.insight || {}));
