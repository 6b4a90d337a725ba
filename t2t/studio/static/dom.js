"use strict";
// What every picture is made of. Text reaches the page as text alone: nothing here reads markup.
(function (insight) {
  const SVG = "http://www.w3.org/2000/svg";

  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return node;
  }

  // An element of the page: element("p", {class: "note"}, "text", otherElement).
  insight.element = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);

  // The same of a drawing.
  insight.shape = (tag, attributes, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

  // Text that may be broken after some letters, underscores and slashes by default.
  insight.breakable = (text, after = /(?<=[_/])/) =>
    text.split(after).flatMap((part, place) => [place ? insight.element("wbr", {}) : null, part]);

  let names = 0;
  insight.fresh = (prefix) => `${prefix}-${++names}`;

  // A labelled choice; the label is text or nodes, `options` are texts, `chosen(index)` is called with what is picked.
  insight.choice = function (label, options, index, chosen) {
    const id = insight.fresh("choice");
    const select = insight.element("select", { id, onchange: () => chosen(select.selectedIndex) });
    select.append(...options.map((text) => insight.element("option", {}, text)));
    select.selectedIndex = index;
    return insight.element("span", { class: "choice" }, insight.element("label", { for: id }, label), " ", select);
  };

  // Numbers between 0 and 1 that were written as 16 bits each, little end first, in base64.
  insight.fractions = function (text) {
    const bytes = atob(text);
    const numbers = new Float32Array(bytes.length / 2);
    for (let i = 0; i < numbers.length; i++) {
      numbers[i] = (bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1)) / 65535;
    }
    return numbers;
  };

  insight.colour = (index, count) => `hsl(${Math.round((360 * index) / Math.max(count, 1) + 210) % 360} 70% 42%)`;

  // A piece as a person reads it: blanks show.
  insight.shown = (piece) => piece.replace(/[ \u2581]/g, "\u2423").replace(/\t/g, "\u21e5") || "\u2205";
})((window.insight = window.insight || {}));
