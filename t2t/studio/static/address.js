"use strict";
// What the address of the page says is shown. Reloading keeps it, and a link that is passed on says it, too.
(function (insight) {
  const current = () => new URLSearchParams(window.location.search);
  const RUN = "run";

  function written(path, parameters) {
    const text = parameters.toString();
    return text ? `${path}?${text}` : path;
  }

  insight.address = {
    // A value, or what stands for one that is not given.
    get: (name, otherwise = "") => current().get(name) ?? otherwise,
    all: (name) => current().getAll(name),

    // Replaces values: text, a list of texts, or null for none.
    set(changes) {
      const parameters = current();
      for (const [name, value] of Object.entries(changes)) {
        parameters.delete(name);
        for (const one of [value].flat()) if (one !== null && one !== "") parameters.append(name, one);
      }
      history.replaceState(null, "", written(window.location.pathname, parameters));
      insight.address.updateLinks();
    },

    // The ticked runs go with whoever goes to another page.
    updateLinks() {
      const runs = new URLSearchParams(current().getAll(RUN).map((name) => [RUN, name]));
      for (const link of document.querySelectorAll("header.bar a")) link.href = written(link.pathname, runs);
    },
  };
})((window.insight = window.insight || {}));
