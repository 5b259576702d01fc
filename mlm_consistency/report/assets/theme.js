// The colour theme: as the system says, or as the reader chose. Runs before the page is drawn.
"use strict";
const Report = {};
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choices = ["system", "light", "dark"];
  let chosen = "system";
  // Storage may be closed to pages opened from disk; the theme then lasts as long as the page.
  try { chosen = localStorage.getItem("mlm-consistency-theme") || "system"; } catch { /* closed */ }

  function apply() {
    const dark = chosen === "dark" || (chosen === "system" && system.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    const button = document.getElementById("theme");
    if (button) {
      button.textContent = `Theme: ${chosen}`;
      button.setAttribute("aria-label", `Colour theme: ${chosen}. Change it`);
    }
    document.dispatchEvent(new CustomEvent("theme"));
  }
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = choices[(choices.indexOf(chosen) + 1) % choices.length];
      try { localStorage.setItem("mlm-consistency-theme", chosen); } catch { /* closed */ }
      apply();
    });
  });
  apply();

  // An element with text and attributes. Text is only ever set as text, never parsed as HTML.
  Report.element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === false || value === undefined) continue;
      made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  Report.download = (name, type, ...parts) => {
    const address = URL.createObjectURL(new Blob(parts, { type }));
    const link = Report.element("a", { href: address, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  // What travels as gzip in base64, as a stream of bytes.
  Report.unpacked = (text) => {
    if (!("DecompressionStream" in window)) throw new Error("this browser cannot unpack gzip (it lacks DecompressionStream)");
    const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
    return new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  };

  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  Report.csv = (rows) => rows.map((row) => row.map((c) => quoted(String(c ?? ""))).join(",")).join("\r\n") + "\r\n";
})();
