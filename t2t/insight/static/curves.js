"use strict";
// The figures of a training by update, of one run or several in one picture each.
(function (insight) {
  const { element, shape } = insight;
  const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [360, 200, 62, 26, 8];

  const short = (value) => (Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-2) ? value.toExponential(1) : String(+value.toPrecision(3)));

  // runs: name of a run -> name of a figure -> [[update, value], ...].
  insight.curves = function (runs) {
    const names = [...new Set(Object.values(runs).flatMap(Object.keys))].sort();
    return element("section", { class: "curves" }, element("h2", {}, "Training"), element("div", { class: "panels" }, names.map((name) => panel(name, runs))));
  };

  function panel(name, runs) {
    const lines = Object.entries(runs).map(([run, curves], index) => ({ run, points: curves[name] || [], index }));
    const points = lines.flatMap((line) => line.points);
    const [x0, x1] = range(points.map((point) => point[0]));
    const [y0, y1] = range(points.map((point) => point[1]));
    const x = (value) => LEFT + ((value - x0) / (x1 - x0)) * (WIDTH - LEFT - 8);
    const y = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - BOTTOM - TOP);
    const last = lines.filter((line) => line.points.length).map((line) => `${line.run} ${short(line.points[line.points.length - 1][1])}`);
    const drawing = shape(
      "svg",
      { width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${name} by update; at the end: ${last.join(", ")}` },
      shape("path", { class: "axes", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - 8}` }),
      [y0, y1].map((value) => shape("text", { x: LEFT - 4, y: y(value) + 4, "text-anchor": "end" }, short(value))),
      [x0, x1].map((value, i) => shape("text", { x: x(value), y: HEIGHT - 8, "text-anchor": i ? "end" : "start" }, short(value))),
      lines.map((line) => shape("path", { class: "curve", stroke: insight.colour(line.index, lines.length), d: line.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("") })),
    );
    const legend = lines.length < 2 ? null : element("p", { class: "legend" }, lines.map((line) => {
      const item = element("span", {}, `${line.run} `);
      item.style.color = insight.colour(line.index, lines.length);
      return item;
    }));
    return element("figure", {}, element("figcaption", {}, name), drawing, legend);
  }

  function range(values) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low < high ? [low, high] : [low - 0.5, high + 0.5];
  }
})((window.insight = window.insight || {}));
