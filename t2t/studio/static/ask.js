"use strict";
// Questions to the server, and what is said of those that fail.
(function (insight) {
  const TOO_LATE = 504;
  const MOST_TRIES = 10;
  const PAUSE_MS = 1000;

  // Returns the JSON of an address: by POST where there is data. The error of a refusal has its status.
  insight.ask = async function (path, data) {
    const init = data && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data) };
    const response = await fetch(path, init);
    const answer = await response.json();
    if (response.ok) return answer;
    throw refusal(response, answer);
  };

  // Asks by POST for an answer that comes in parts, server-sent events of JSON; calls each(part) with every one of them.
  insight.askInParts = async function (path, data, each) {
    const headers = { "content-type": "application/json" };
    const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(data) });
    if (!response.ok) throw refusal(response, await response.json());
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        const part = JSON.parse(event.slice("data: ".length));
        if (part.error) throw refusal(response, part); // what went wrong after the first part
        each(part);
      }
    }
  };

  const refusal = (response, answer) =>
    Object.assign(new Error(answer.error || response.statusText), { status: response.status });

  // Asks for what may take longer than a request does, some times: the server goes on meanwhile, and keeps the answer.
  insight.askPatiently = async function (path, data) {
    for (let tries = 1; ; tries++) {
      try {
        return await insight.ask(path, data);
      } catch (error) {
        if (error.status !== TOO_LATE || tries === MOST_TRIES) throw error;
      }
      await new Promise((resume) => setTimeout(resume, PAUSE_MS));
    }
  };

  insight.load = (system) => insight.askPatiently("/insight/load", system);

  insight.complaint = (error) => insight.element("p", { class: "note error", role: "alert" }, error.message);
})((window.insight = window.insight || {}));
