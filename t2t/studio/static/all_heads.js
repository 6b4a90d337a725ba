"use strict";
// Every head of every layer at a glance: a small heat map each, which opens that head large.
(function (insight) {
  const { element } = insight;
  const LARGEST = 96; // pixels of a side
  const SMALLEST = 24;

  function draw(canvas, map, layer, head) {
    const context = canvas.getContext("2d");
    const cell = canvas.width / map.keys.length;
    const row = canvas.height / map.queries.length;
    for (let query = 0; query < map.queries.length; query++) {
      for (let key = 0; key < map.keys.length; key++) {
        context.fillStyle = insight.shade(map.at(layer, head, query, key));
        context.fillRect(cell * key, row * query, Math.ceil(cell), Math.ceil(row));
      }
    }
  }

  // The mean over queries of the largest weight: 1 where each looks at one place alone.
  function sharpness(map, layer, head) {
    let sum = 0;
    for (let query = 0; query < map.queries.length; query++) {
      sum += Math.max(...map.keys.map((_, key) => map.at(layer, head, query, key)));
    }
    return sum / map.queries.length;
  }

  // open(layer, head): shows one of them large.
  insight.allHeads = function (map, open) {
    const longest = Math.max(map.queries.length, map.keys.length);
    const side = (count) => Math.max(SMALLEST, Math.round((LARGEST * count) / longest));
    const one = (layer, head) => {
      const canvas = element("canvas", { width: side(map.keys.length), height: side(map.queries.length), "aria-hidden": "true" });
      draw(canvas, map, layer, head);
      const sharp = sharpness(map, layer, head).toFixed(2);
      const label = `Layer ${layer + 1}, head ${head + 1}; largest weights ${sharp} on average`;
      return element("button", { type: "button", class: "small-head", "aria-label": label, title: label, onclick: () => open(layer, head) }, canvas);
    };
    const heads = [...Array(map.heads).keys()];
    const row = (name, layer) =>
      element("tr", {}, element("th", { scope: "row" }, name), heads.map((head) => element("td", {}, one(layer, head))));
    const top = heads.map((head) => element("th", { scope: "col" }, `Head ${head + 1}`));
    return element(
      "div",
      { class: "scrolled all-heads", tabindex: 0, role: "region", "aria-label": `${map.name}: all heads` },
      element(
        "table",
        {},
        element("caption", {}, `${map.name}, all heads: rows look at columns; choose one to see it large`),
        element("thead", {}, element("tr", {}, element("td", {}), top)),
        element("tbody", {}, map.layers.map(row)),
      ),
    );
  };
})((window.insight = window.insight || {}));
