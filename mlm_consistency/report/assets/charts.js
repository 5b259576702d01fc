// Figures: drawn by Vega when they come near the window, once a theme; saved on white paper.
"use strict";
(() => {
  const specifications = JSON.parse(document.getElementById("charts").textContent);
  const pdfs = JSON.parse(document.getElementById("pdfs").textContent);

  function themed(specification, style) {
    const get = (name) => style.getPropertyValue(name).trim();
    const palette = ["--chart-0", "--chart-1", "--chart-2"].map(get);
    const words = { labelColor: get("--ink"), titleColor: get("--ink"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
    return {
      ...specification,
      params: [
        { name: "palette", value: palette },
        { name: "inkOnHeat", value: get("--ink-on-heat") },
        { name: "inkOnPale", value: get("--ink-on-pale") },
      ],
      config: {
        background: null,
        font: get("--sans"),
        view: { stroke: null },
        axis: { ...words, gridColor: get("--rule"), domainColor: get("--strong-rule"), tickColor: get("--strong-rule") },
        legend: { ...words, symbolSize: 64 },
        rule: { color: get("--muted") },
        text: { color: get("--ink") },
        range: { category: palette, heatmap: [get("--heat-low"), get("--heat-high")] },
      },
    };
  }

  async function draw(place) {
    const style = getComputedStyle(document.documentElement);
    const theme = document.documentElement.dataset.theme;
    place.dataset.drawn = theme;
    const made = await vegaEmbed(place, themed(specifications[place.dataset.chart], style), {
      renderer: "svg", actions: false, tooltip: { theme },
    });
    // The figure already has a spoken label; Vega's own marks would be read one by one.
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    place.view = made.view;
  }

  // A view of its own, in the light theme and of a set width, so that every reader saves the same.
  async function unseen(name) {
    const root = document.documentElement, before = root.dataset.theme;
    root.dataset.theme = "light";
    const light = themed(specifications[name], getComputedStyle(root));
    root.dataset.theme = before;
    const paper = { ...light, width: 520, background: "#ffffff", padding: 12 };
    const made = await vegaEmbed(document.createElement("div"), paper, { renderer: "svg", actions: false });
    return made.view;
  }

  async function save(name, kind) {
    if (kind === "PDF") {
      Report.download(`${name}.pdf`, "application/pdf", await new Response(Report.unpacked(pdfs[name])).blob());
      return;
    }
    const view = await unseen(name);
    if (kind === "SVG") {
      Report.download(`${name}.svg`, "image/svg+xml", await view.toSVG());
    } else {
      const canvas = await view.toCanvas(3);
      canvas.toBlob((blob) => Report.download(`${name}.png`, "image/png", blob));
    }
    view.finalize();
  }

  document.addEventListener("DOMContentLoaded", () => {
    const places = [...document.querySelectorAll("[data-chart]")];
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
      }
    }, { rootMargin: "600px" });
    for (const place of places) {
      near.observe(place);
      const caption = place.closest("figure").querySelector("figcaption");
      const saves = Report.element("span", { class: "saves" });
      for (const kind of ["SVG", "PDF", "PNG"]) {
        const button = Report.element("button", { type: "button", class: "quiet", "aria-label": `Save as ${kind}: ${caption.textContent.trim()}` }, kind);
        button.addEventListener("click", () => save(place.dataset.chart, kind));
        saves.append(button);
      }
      caption.append(saves);
    }
    // A page with an explorer is ready when that has read its examples.
    if (!document.getElementById("explorer")) document.documentElement.dataset.ready = "true";
    const redraw = () => {
      const theme = document.documentElement.dataset.theme;
      for (const place of places) if (place.dataset.drawn && place.dataset.drawn !== theme) draw(place);
    };
    document.addEventListener("theme", redraw);
    window.addEventListener("beforeprint", () => places.filter((p) => !p.dataset.drawn).forEach(draw));
  });
})();
