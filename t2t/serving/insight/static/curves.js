"use strict";
// The figures of a training by update, of one run or several in one picture each.
(function (insight) {
  const { element, shape } = insight;
  const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [360, 200, 62, 26, 8];

  function short(value) {
    const isOdd = Math.abs(value) >= 1e4 || (value && Math.abs(value) < 1e-2);
    return isOdd ? value.toExponential(1) : String(+value.toPrecision(3));
  }

  // runs: name of a run -> {points: name of a figure -> [[update, value], ...], notes: name of a figure -> text}.
  insight.curves = function (runs) {
    const names = [...new Set(Object.values(runs).flatMap((curves) => Object.keys(curves.points)))].sort();
    const panels = element("div", { class: "panels" }, names.map((name) => panel(name, runs)));
    return element("section", { class: "curves" }, element("h2", {}, "Training"), panels);
  };

  function panel(name, runs) {
    const lines = Object.entries(runs).map(([run, curves], index) => {
      return { run, points: curves.points[name] || [], note: curves.notes[name] || "", index };
    });
    const points = lines.flatMap((line) => line.points);
    const [x0, x1] = range(points.map((point) => point[0]));
    const [y0, y1] = range(points.map((point) => point[1]));
    const x = (value) => LEFT + ((value - x0) / (x1 - x0)) * (WIDTH - LEFT - 8);
    const y = (value) => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - BOTTOM - TOP);
    const drawn = lines.filter((line) => line.points.length);
    const last = drawn.map((line) => `${line.run} ${short(line.points[line.points.length - 1][1])} ${line.note}`.trim());
    const label = (text, x, y, anchor) => shape("text", { x, y, "text-anchor": anchor }, text);
    const drawing = shape(
      "svg",
      { width: WIDTH, height: HEIGHT, role: "img", "aria-label": `${name} by update; at the end: ${last.join(", ")}` },
      shape("path", { class: "axes", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - 8}` }),
      [y0, y1].map((value) => label(short(value), LEFT - 4, y(value) + 4, "end")),
      [x0, x1].map((value, i) => label(short(value), x(value), HEIGHT - 8, i ? "end" : "start")),
      drawn.map((line) => {
        const d = "M" + line.points.map((point) => `${x(point[0]).toFixed(1)} ${y(point[1]).toFixed(1)}`).join("L");
        return shape("path", { class: "curve", stroke: insight.colour(line.index, lines.length), d });
      }),
    );
    return element("figure", {}, element("figcaption", {}, name), drawing, legend(lines));
  }

  // Which curve is whose, where there are several, and what to know of their values.
  function legend(lines) {
    const isOne = lines.length === 1;
    if (isOne && !lines[0].note) return null;
    const items = lines.map((line) => {
      const said = line.note && !isOne ? `${line.run} (${line.note}) ` : isOne ? line.note : `${line.run} `;
      const item = element("span", {}, said);
      item.style.color = insight.colour(line.index, lines.length);
      return item;
    });
    return element("p", { class: "legend" }, items);
  }

  function range(values) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low < high ? [low, high] : [low - 0.5, high + 0.5];
  }
})((window.insight = window.insight || {}));
