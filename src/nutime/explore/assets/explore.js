// Rings around the chosen series and its neighbours, in an SVG of their own above the map: WebGL points would
// cover marks of the map itself, and moving those would redraw all points.
const SVG = "http://www.w3.org/2000/svg";
let marks = [];

function drawRings(plot) {
  const { xaxis, yaxis } = plot._fullLayout;
  const share = ({ range }, value) => (value - range[0]) / (range[1] - range[0]);
  const rings = marks.flatMap(([x, y], index) => {
    const [right, up] = [share(xaxis, x), share(yaxis, y)];
    if (Math.min(right, up) < 0 || Math.max(right, up) > 1) return []; // out of sight
    const ring = document.createElementNS(SVG, "circle");
    ring.setAttribute("class", index ? "near" : "chosen");
    ring.setAttribute("cx", xaxis._offset + xaxis._length * right);
    ring.setAttribute("cy", yaxis._offset + yaxis._length * (1 - up));
    ring.setAttribute("r", index ? 6.5 : 8.5);
    return [ring];
  });
  plot.rings.replaceChildren(...rings.reverse()); // the chosen one lies on top
}

async function mapPlot() {
  for (;;) {
    const plot = document.querySelector("#map .js-plotly-plot");
    if (plot?._fullLayout?.xaxis) return plot;
    await new Promise(requestAnimationFrame);
  }
}

window.dash_clientside = window.dash_clientside ?? {};
window.dash_clientside.explore = {
  async ring(places) {
    const plot = await mapPlot();
    if (!plot.rings) {
      plot.rings = document.createElementNS(SVG, "svg");
      plot.rings.setAttribute("class", "rings");
      plot.closest(".graph").append(plot.rings);
      for (const event of ["plotly_afterplot", "plotly_relayouting"]) plot.on(event, () => drawRings(plot));
    }
    marks = places;
    drawRings(plot);
  },
  selected: (data, key) => (data?.points?.length ? [key, data.points.map((point) => point.customdata)] : null),
};

// dcc.Upload silently drops a file above its size limit; show why, and what to do instead.
for (const event of ["drop", "change"]) {
  document.addEventListener(
    event,
    ({ target, dataTransfer }) => {
      const intake = target.closest?.("#intake");
      const limit = Number(intake?.dataset.limit);
      const large = [...((dataTransfer ?? target).files ?? [])].find((file) => intake && file.size > limit);
      if (!large) return;
      const megabytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MB`;
      window.dash_clientside.set_props("message", {
        children:
          `${large.name}: has ${megabytes(large.size)}, more than the ${megabytes(limit)} a page can take; ` +
          `open it with: nutime explore ${large.name}`,
      });
    },
    true, // before the upload sees it
  );
}
