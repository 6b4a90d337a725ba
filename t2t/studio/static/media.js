"use strict";
// Pictures and sounds that came with an answer.
(function (insight) {
  const { element } = insight;

  // media: as the server gives it, or null; label: what it is.
  insight.media = function (media, label) {
    if (!media) return null;
    const shown =
      media.kind === "image"
        ? element("img", { class: "picture-of-data", src: media.url, alt: label })
        : element("audio", { controls: "", preload: "metadata", src: media.url, "aria-label": label });
    return element("div", { class: "media" }, shown, media.note ? element("span", { class: "unit" }, ` ${media.note}`) : null);
  };
})((window.insight = window.insight || {}));
