"use strict";
// An output piece by piece, each with a shade for its probability; its words, and the words of the input they belong to.
(function (insight) {
  const { element, shown } = insight;
  // The least probability of each shade, as a style sheet numbers them: the surer, the fainter.
  const SHADES = [0.9, 0.7, 0.5, 0.2, 0];
  const percent = (fraction) => `${Math.round(100 * fraction)} %`;

  const shadeOf = (probability) => SHADES.findIndex((least) => probability >= least);

  function legend() {
    const said = SHADES.map((least, i) =>
      element("li", {}, element("span", { class: `shade shade-${i}`, "aria-hidden": "true" }, "\u00a0"),
        i ? ` ${percent(least)} to ${percent(SHADES[i - 1])}` : ` ${percent(least)} and more`),
    );
    return element("ul", { class: "legend", "aria-label": "Shades of probability" }, said);
  }

  // The text of an input with each word in an element of its own, so that it can be marked.
  insight.words = function (text) {
    let number = 0;
    return text.split(/(\s+)/).map((part) =>
      part.trim() ? element("span", { class: "source-word", "data-word": number++ }, part) : part,
    );
  };

  // figure: as the server gives it. mark(numbers): marks words of the input.
  // choose(index): a piece was clicked, not one that was given; null where nothing follows from that.
  insight.pieces = function (figure, mark, choose) {
    const words = figure.target.split(/\s+/).filter(Boolean);
    const sources = figure.source.split(/\s+/).filter(Boolean);
    const readout = element("p", { class: "piece-readout", "aria-live": "polite" }, "Point at a piece, or go to it, for its numbers.");
    const aligned = (word) => (figure.links || []).filter(([, target]) => target === word).map(([source]) => source);

    function say(piece) {
      const parts = [`${shown(piece.piece)}: probability ${Math.exp(piece.log_prob).toFixed(4)}, log ${piece.log_prob.toFixed(3)}`];
      const links = piece.word === null ? [] : aligned(piece.word);
      if (piece.word !== null && words[piece.word] !== undefined) parts.push(`of word ${piece.word + 1}, ${words[piece.word]}`);
      if (links.length) parts.push(`which belongs to ${links.map((i) => `${sources[i]} (${i + 1})`).join(", ")}`);
      readout.textContent = parts.join("; ");
      mark(links);
    }

    const button = (piece, index) => {
      const attributes = {
        type: "button", class: `output-piece shade-${shadeOf(Math.exp(piece.log_prob))}`, "data-index": index,
        "aria-label": `${shown(piece.piece)}, probability ${Math.exp(piece.log_prob).toFixed(4)}`,
        onmouseenter: () => say(piece),
        onfocus: () => say(piece),
        onmouseleave: () => mark([]),
        onblur: () => mark([]),
        onclick: () => (choose && index >= figure.given ? choose(index) : say(piece)),
      };
      return element("button", attributes, shown(piece.piece));
    };
    const next = choose ? " Click a piece for what else might have come there." : "";
    return element(
      "section",
      { class: "output-pieces", "aria-label": "Piece by piece" },
      element("h3", {}, "Piece by piece"),
      element("p", { class: "note" }, `How probable each piece was after those before it.${next}`),
      legend(),
      element("div", { class: "pieces", dir: "auto" }, figure.pieces.map(button)),
      readout,
    );
  };
})((window.insight = window.insight || {}));
