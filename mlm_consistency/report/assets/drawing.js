// One example drawn: its masked prompts, and each conditional's answer and distribution.
"use strict";
(() => {
  const { element } = Report;
  const WORD_START = /▁/g;
  const LONG = 110, SHOWN = 70;  // prompt tokens: above the first, only the second are drawn at once
  const SHORT_TEXT = 24;  // characters of a candidate that fits above its column

  // Data too large to read as text travel as gzip in base64.
  Report.examples = (async () => {
    const held = document.getElementById("examples");
    if (held.type === "application/json") return JSON.parse(held.textContent);
    return JSON.parse(await new Response(Report.unpacked(held.textContent)).text());
  })();

  Report.letter = (c) => (c < 26 ? String.fromCharCode(65 + c) : String(c + 1));
  Report.address = (task, i) => `#${encodeURIComponent(task.task)}/${encodeURIComponent(task.ids[i])}`;
  Report.prompt = (task, i) => task.prompts[i] ??
    (task.pieces[i][0] ?? []).join("").replace(WORD_START, " ").trim().replace(/^\[(NLU|NLG|S2S)\] /, "");
  const right = (task, i, c) => task.labels[i].includes(c);
  const verdict = (task, i, c) => element("span", { class: right(task, i, c) ? "right" : "wrong" }, right(task, i, c) ? "✓ right" : "✗ wrong");

  // "B garden × 7, A hall × 3", most votes first.
  Report.votes = (task, i) => {
    const counts = new Map();
    for (const c of task.answers[i]) if (c >= 0) counts.set(c, (counts.get(c) ?? 0) + 1);
    const parts = [...counts].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([c, n]) => {
      const text = task.candidates[i][c];
      const short = text.length > 44 ? `${text.slice(0, 42)}…` : text;
      return element("span", { class: right(task, i, c) ? "right" : "" }, `${right(task, i, c) ? "✓ " : ""}${Report.letter(c)} ${short} × ${n}`);
    });
    const line = element("span", { class: "votes" });
    parts.forEach((part, at) => line.append(at ? ", " : "", part));
    return line;
  };

  Report.tail = (task, i) => {
    const prompt = Report.prompt(task, i);
    const end = prompt.length > 170 ? `…${prompt.slice(-170).replace(/^\S*/, "")}` : prompt;
    return element("span", { class: "tail" }, element("bdi", {}, end.replace(/\s+/g, " ")));
  };

  const sentinel = (k, coloured) => element("span", { class: `sentinel${coloured ? ` span-${k % 4}` : ""}`, title: `sentinel <extra_id_${k}>` }, `x${k}`);

  // What is masked stands at a prompt's end, so a long one's beginning waits behind a button.
  function beginning(text, tokens) {
    const button = element("button", { type: "button", class: "quiet more", "aria-expanded": "false" }, `… ${tokens} tokens before`);
    button.addEventListener("click", () => button.replaceWith(text));
    return button;
  }

  // Layout entries are a sentinel's number or a range [start, stop) of the prompt's pieces.
  function drawSide(entries, pieces, spansOf) {
    const line = element("dd");
    let last = null;
    for (const entry of entries) {
      if (typeof entry === "number") {
        line.append(" ", sentinel(entry, spansOf.has(entry)), " ");
        last = entry;
        continue;
      }
      const read = (from, to) => pieces.slice(from, to).join("").replace(WORD_START, " ").trim();
      let start = entry[0];
      if (!spansOf.decoder && entry[1] - start > LONG) {
        start = entry[1] - SHOWN;
        line.append(beginning(`${read(entry[0], start)} `, start - entry[0]), " ");
      }
      const text = read(start, entry[1]);
      // In the decoder, what follows a sentinel is the span that it stands for.
      line.append(spansOf.decoder && spansOf.has(last) ? element("mark", { class: `span-${last % 4}` }, text) : text);
    }
    return line;
  }

  Report.masked = (task, i, k) => {
    const name = task.conditionals[k], answer = task.answers[i][k];
    const box = element("div", { class: "masked" });
    if (answer < 0) {
      const reason = task.reason_texts[task.reasons[`${i},${k}`]] ?? "it does not fit";
      box.append(element("div", { class: "who" }, element("b", {}, name), element("span", { class: "absent" }, `not applicable: ${reason}`)));
      return box;
    }
    box.append(element("div", { class: "who" }, element("b", {}, name),
      element("span", {}, `answers ${Report.letter(answer)} `, verdict(task, i, answer))));
    const pieces = task.pieces[i][task.mode_index[k]] ?? [];
    const layout = task.layouts[k][pieces.length];
    if (!layout) return box;
    const [encoder, decoder] = layout;
    const spans = new Set();
    decoder.forEach((entry, at) => { if (typeof entry === "number" && Array.isArray(decoder[at + 1])) spans.add(entry); });
    const encoderLine = drawSide(encoder, pieces, spans);
    encoderLine.append(" ", element("span", { class: "end" }, "</s>"));
    const inDecoder = new Set(spans);
    inDecoder.decoder = true;
    // A model without sentinels moves its tokens unmarked.
    if (decoder.length && Array.isArray(decoder[0])) inDecoder.add(null);
    const decoderLine = drawSide(decoder, pieces, inDecoder);
    decoderLine.append(" ", element("mark", { class: "said" }, task.candidates[i][answer]));
    box.append(element("dl", { class: "side" },
      element("dt", {}, "encoder"), encoderLine, element("dt", {}, "decoder"), decoderLine));
    return box;
  };

  // Shares of the candidates under one conditional: softmax of its scores.
  function shares(task, i, k) {
    const n = task.candidates[i].length;
    const nats = task.scores[i].slice(k * n, (k + 1) * n);
    const most = Math.max(...nats.filter((v) => v !== null)) / 1000;
    const weights = nats.map((v) => (v === null ? 0 : Math.exp(v / 1000 - most)));
    const sum = weights.reduce((a, b) => a + b, 0);
    return nats.map((v, c) => ({ nats: v === null ? null : v / 1000, share: sum ? weights[c] / sum : 0 }));
  }

  function answersTable(task, i, selected, select, group) {
    const head = element("tr", {}, element("th", { scope: "col" }, "conditional"));
    const long = task.candidates[i].some((text) => text.length > SHORT_TEXT);
    const legend = long ? element("ol", { class: "legend" }) : null;
    task.candidates[i].forEach((text, c) => {
      const named = (said) => [element("b", {}, `${Report.letter(c)} `), said, right(task, i, c) ? element("span", { class: "right" }, " ✓") : null];
      head.append(element("th", { scope: "col" }, ...named(long ? "" : text)));
      legend?.append(element("li", {}, ...named(text)));
    });
    const body = element("tbody");
    task.conditionals.forEach((name, k) => {
      const choice = element("input", { type: "radio", name: group, value: k, checked: k === selected });
      choice.addEventListener("change", () => select(k));
      const row = element("tr", {}, element("th", { scope: "row" }, element("label", {}, choice, name)));
      const answer = task.answers[i][k];
      if (answer < 0) {
        row.append(element("td", { class: "absent", colspan: task.candidates[i].length }, "not applicable"));
      } else {
        shares(task, i, k).forEach(({ nats, share }, c) => {
          const percent = (100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0);
          const bar = element("span", { style: `--p:${(100 * share).toFixed(1)}%`, title: `${name}, ${task.candidates[i][c]}: ${nats === null ? "no score" : `${nats.toFixed(3)} nats`}` }, element("i", {}, percent));
          row.append(element("td", { class: `share${c === answer ? " best" : ""}` }, bar));
        });
      }
      body.append(row);
    });
    const table = element("table", { class: `answers${long ? " lettered" : ""}` }, element("caption", { class: "hidden" }, "Share of each candidate in percent under each conditional"), element("thead", {}, head), body);
    return element("div", {}, legend,
      element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Shares of the candidates" }, table));
  }

  // The conditional that is surest of another answer than the baseline's.
  function contrary(task, i) {
    let found = 0, most = -1;
    task.conditionals.forEach((_, k) => {
      const answer = task.answers[i][k];
      if (answer < 0 || answer === task.answers[i][0]) return;
      const share = shares(task, i, k)[answer].share;
      if (share > most) [found, most] = [k, share];
    });
    return found || Math.min(1, task.conditionals.length - 1);
  }

  let cards = 0;
  Report.card = (task, i, preferred = null) => {
    const group = `conditional-${cards++}`;
    const drawings = element("div");
    let selected = preferred ?? contrary(task, i), all = false;
    const show = () => {
      const which = all ? task.conditionals.map((_, k) => k) : [...new Set([0, selected])];
      drawings.replaceChildren(...which.map((k) => Report.masked(task, i, k)));
    };
    const ensemble = task.ensemble[i];
    const everything = element("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Draw all conditionals");
    everything.addEventListener("click", () => {
      all = !all;
      everything.setAttribute("aria-pressed", all);
      everything.textContent = all ? "Draw two conditionals" : "Draw all conditionals";
      show();
    });
    show();
    return element("article", { class: "card" },
      element("h4", {}, task.ids[i], element("a", { href: Report.address(task, i) }, "permalink")),
      element("p", { class: "about" },
        task.subjects[task.subject[i]] ? `${task.subjects[task.subject[i]]} · ` : "",
        `${(task.pieces[i][0] ?? []).length} prompt tokens · divergence ${task.divergence[i].toFixed(3)} nats · `,
        `max over conditionals answers ${Report.letter(ensemble)} `, verdict(task, i, ensemble)),
      drawings,
      answersTable(task, i, selected, (k) => { selected = k; show(); }, group),
      element("p", { class: "note" }, "Bars: each conditional’s distribution over the candidates (softmax of its scores, %); framed: its answer; ✓: right. Choose a row to draw its masked prompt. ", everything));
  };

  document.addEventListener("DOMContentLoaded", async () => {
    let tasks;
    try { tasks = await Report.examples; } catch { return; }
    for (const section of document.querySelectorAll(".contradictions")) {
      const task = tasks[Number(section.dataset.task)];
      const list = section.querySelector("ol");
      task.top.forEach((i, rank) => {
        const more = element("details", {}, element("summary", {}, Report.tail(task, i),
          element("span", { class: "nats" }, `${task.divergence[i].toFixed(3)} nats`), Report.votes(task, i)));
        more.addEventListener("toggle", () => {
          if (more.open && more.children.length === 1) more.append(Report.card(task, i));
        });
        more.open = rank === 0;
        list.append(element("li", {}, more));
      });
      if (!task.top.length) list.replaceWith(element("p", {}, "None: the conditionals agree on every example."));
    }
  });
})();
