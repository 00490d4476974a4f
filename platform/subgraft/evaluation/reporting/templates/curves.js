"use strict";
// Draws the curves of a figure that has them as numbers in place of its picture. Without scripts the picture stays.
(() => {
  const LEFT = 46, RIGHT = 30, TOP = 28, BOTTOM = 40;
  const narrow = matchMedia("(max-width: 640px)");

  const holder = document.createElement("div");
  holder.innerHTML = "<svg></svg>";  // the parser knows the name space, so that the page names no address
  const space = holder.firstChild.namespaceURI;

  const shape = (name, attributes, parent, words) => {
    const made = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (words !== undefined) made.textContent = words;
    parent.append(made);
    return made;
  };

  const ticks = (low, high) => {
    const rough = (high - low) / (narrow.matches ? 4 : 5) || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(one => one * power).find(one => one >= rough);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Number(at.toPrecision(8)));
    return found;
  };

  const draw = (panel, hidden, tell) => {
    const [WIDTH, HEIGHT] = narrow.matches ? [380, 230] : [560, 320];  // so that text is as large on both
    const shown = panel.series.filter(one => one.points.length && !hidden.has(one.name));
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.setAttribute("class", "curves");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", panel.title);
    shape("text", {x: LEFT, y: 16, class: "title"}, svg, panel.title);
    shape("text", {x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle"}, svg, panel.across);
    if (!shown.length) return svg;
    const steps = shown.flatMap(one => one.points.map(point => point[0]));
    const values = shown.flatMap(one => one.points.flatMap(point => [point[2], point[3]]));
    const [first, last] = [Math.min(...steps), Math.max(...steps)];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const x = step => LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / (last - first || 1);
    const y = value => TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low || 1);
    for (const at of ticks(low, high)) {
      shape("line", {x1: LEFT, x2: WIDTH - RIGHT, y1: y(at), y2: y(at)}, svg);
      shape("text", {x: LEFT - 6, y: y(at) + 4, "text-anchor": "end"}, svg, at);
    }
    for (const at of ticks(first, last))
      shape("text", {x: x(at), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle"}, svg, at.toLocaleString("en"));
    for (const one of [...shown].sort((a, b) => a.strong - b.strong)) {
      const up = one.points.map(point => `${x(point[0])},${y(point[3])}`);
      const down = one.points.map(point => `${x(point[0])},${y(point[2])}`).reverse();
      if (one.strong) shape("polygon", {points: [...up, ...down].join(" "), fill: one.colour, opacity: .14}, svg);
      const line = one.points.map(point => `${x(point[0])},${y(point[1])}`).join("L");
      shape("path", {d: `M${line}`, stroke: one.colour, class: one.strong ? "strong" : "other"}, svg);
    }
    const dot = shape("circle", {r: 4.5, class: "dot", visibility: "hidden"}, svg);
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect(), scale = WIDTH / box.width;
      const across = (event.clientX - box.left) * scale, down = (event.clientY - box.top) * scale;
      let nearest = null;
      for (const one of shown) for (const point of one.points) {
        const far = Math.hypot(x(point[0]) - across, y(point[1]) - down);
        if (!nearest || far < nearest.far) nearest = {far, one, point};
      }
      const {one, point} = nearest;
      dot.setAttribute("cx", x(point[0]));
      dot.setAttribute("cy", y(point[1]));
      dot.setAttribute("fill", one.colour);
      dot.setAttribute("visibility", "visible");
      const range = point[2] === point[3] ? "" : ` (seeds from ${point[2]} to ${point[3]})`;
      tell(`${one.name}, ${panel.across} ${point[0].toLocaleString("en")}: ${point[1]}${range}`);
    });
    return svg;
  };

  for (const source of document.querySelectorAll("script.numbers")) {
    const panels = JSON.parse(source.textContent), hidden = new Set();
    const place = document.createElement("div"), drawn = document.createElement("div");
    const legend = document.createElement("div"), readout = document.createElement("div");
    const asked = "Point at a curve for its figures; choose a name to hide its curve, or show it again.";
    drawn.className = "panels"; legend.className = "legend"; readout.className = "readout";
    readout.textContent = asked;
    const again = () => drawn.replaceChildren(...panels.map(one => draw(one, hidden, words => { readout.textContent = words; })));
    for (const one of panels[0].series) {
      const button = document.createElement("button"), spot = document.createElement("i");
      spot.style.background = one.colour;
      button.type = "button";
      button.append(spot, one.name);
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        if (!hidden.delete(one.name)) hidden.add(one.name);
        button.setAttribute("aria-pressed", String(!hidden.has(one.name)));
        again();
      });
      legend.append(button);
    }
    again();
    narrow.addEventListener("change", again);
    place.append(drawn, legend, readout);
    source.parentNode.querySelector("picture").replaceWith(place);
  }
})();
