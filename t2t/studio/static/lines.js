"use strict";
// Lines between pieces, one colour a head, as dark as the weight; boxes at what the followed piece has to do with.
(function (insight) {
  const { element, shape, shown } = insight;
  const ROW = 22;
  const LEFT = 200; // where the pieces on the left end
  const BOX = 9;
  const MOST_LETTERS = 22;

  const short = (text) => ([...text].length > MOST_LETTERS ? [...text].slice(0, MOST_LETTERS - 1).join("") + "\u2026" : text);

  insight.lines = function (map, state, follow, faintest) {
    const boxes = BOX * map.heads;
    const right = LEFT + 190 + boxes;
    const height = ROW * (Math.max(map.queries.length, map.keys.length) + 1);
    const y = (index) => ROW * (index + 1);
    const strokes = shape("g", { class: "strokes", "aria-hidden": "true" });
    const marks = shape("g", { class: "marks", "aria-hidden": "true" });
    const sides = { query: map.queries, key: map.keys };
    const nodes = { query: [], key: [] };

    function redraw() {
      const focus = state.focus;
      strokes.replaceChildren();
      marks.replaceChildren();
      for (let query = 0; query < map.queries.length; query++) {
        for (let key = 0; key < map.keys.length; key++) {
          if (focus && (focus.side === "query" ? query : key) !== focus.index) continue;
          for (const head of state.heads) drawOne(head, query, key, focus);
        }
      }
      for (const side of ["query", "key"]) {
        nodes[side].forEach((node, index) => {
          node.classList.toggle("followed", Boolean(focus) && focus.side === side && focus.index === index);
        });
      }
    }

    function drawOne(head, query, key, focus) {
      const weight = map.at(state.layer, head, query, key);
      if (weight < faintest) return;
      const colour = insight.colour(head, map.heads);
      const apart = ((head - (map.heads - 1) / 2) * (ROW - 8)) / map.heads; // or the last head would hide the others
      const ends = { x1: LEFT + boxes + 6, y1: y(query), x2: right - boxes - 6, y2: y(key) + apart };
      const line = { ...ends, "data-head": head, "data-query": query };
      const ink = { stroke: colour, "stroke-opacity": weight.toFixed(4) };
      strokes.append(shape("line", { ...line, ...ink, "data-key": key }));
      if (!focus) return;
      const isQuery = focus.side === "query";
      const x = isQuery ? right - boxes + BOX * head : LEFT + 3 + BOX * head;
      const top = y(isQuery ? key : query) - BOX / 2 - 3;
      marks.append(shape("rect", { x, y: top, width: BOX - 1, height: BOX + 3, fill: colour, "fill-opacity": weight.toFixed(4) }));
    }

    function move(side, index, event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const other = { ArrowLeft: "query", ArrowRight: "key" }[event.key];
      let to = null;
      if (step) to = nodes[side][index + step];
      else if (other) to = nodes[other][Math.min(index, nodes[other].length - 1)];
      else if (event.key === "Home") to = nodes[side][0];
      else if (event.key === "End") to = nodes[side][nodes[side].length - 1];
      else if (event.key === "Enter" || event.key === " ") chosen({ side, index }, true);
      else if (event.key === "Escape") chosen(null, true);
      else return;
      event.preventDefault();
      if (to) to.focus();
    }

    function chosen(focus, pin) {
      follow(focus, pin);
      redraw();
    }

    function piece(side, index) {
      const isQuery = side === "query";
      const text = shown(sides[side][index]);
      const x = isQuery ? LEFT : right + 3;
      const node = shape(
        "g",
        {
          class: "piece", role: "button", tabindex: isQuery && index === 0 ? 0 : -1, "data-side": side, "data-index": index,
          "aria-label": `${text}, ${isQuery ? "looks" : "is looked at"}, ${index + 1} of ${sides[side].length}`,
          onmouseenter: () => chosen({ side, index }, false),
          onmouseleave: () => chosen(null, false),
          onfocus: () => chosen({ side, index }, false),
          onclick: () => chosen({ side, index }, true),
          onkeydown: (event) => move(side, index, event),
        },
        shape("title", {}, text),
        shape("rect", { x: isQuery ? 0 : right, y: y(index) - ROW / 2, width: LEFT, height: ROW, class: "back" }),
        shape("text", { x, y: y(index) + 4, "text-anchor": isQuery ? "end" : "start" }, short(text)),
      );
      nodes[side].push(node);
      return node;
    }

    const pieces = ["query", "key"].map((side) => shape("g", {}, sides[side].map((_, index) => piece(side, index))));
    redraw();
    const width = right + LEFT;
    const drawing = shape(
      "svg",
      { width, height, role: "group", "aria-label": `${map.name}: arrow keys move from piece to piece` },
      strokes, marks, pieces,
    );
    return element("div", { class: "scrolled" }, drawing);
  };
})((window.insight = window.insight || {}));
