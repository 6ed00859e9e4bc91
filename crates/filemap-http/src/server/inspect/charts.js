// Live charts of the overview: rates, made of the counters in /v1/stat. Without this script the
// table has totals and averages.
"use strict";

const SECONDS = 5; // between two looks
const KEPT = 720; // points of a chart: an hour
const SVG = "http://www.w3.org/2000/svg";

const rows = Array.from(document.querySelectorAll("tr[data-figure]"));
const state = document.getElementById("live");
let last = null;

/** The cell behind the averages that shows what is so now. */
function begin(row) {
  const now = row.querySelector(".now");
  const chart = document.createElementNS(SVG, "svg");
  chart.setAttribute("viewBox", `0 0 ${KEPT - 1} 100`);
  chart.setAttribute("preserveAspectRatio", "none");
  chart.setAttribute("role", "img");
  chart.setAttribute("class", "chart");
  chart.setAttribute("aria-label", "nothing is known yet");
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  chart.append(line);
  row.querySelector(".chart-of").append(chart);
  return { figure: row.dataset.figure, name: row.querySelector("th").textContent, now, chart, line, points: [] };
}

/** A rate in words: three digits. */
function words(rate) {
  return rate === 0 || rate >= 100 ? Math.round(rate).toLocaleString("en") : rate.toPrecision(3);
}

function draw(of, rate) {
  of.points.push(rate);
  if (of.points.length > KEPT) {
    of.points.shift();
  }
  const most = Math.max(...of.points, 1e-9);
  const first = KEPT - of.points.length;
  of.line.setAttribute("points", of.points.map((value, at) => `${first + at},${98 - (96 * value) / most}`).join(" "));
  of.now.textContent = words(rate);
  const minutes = Math.ceil((of.points.length * SECONDS) / 60);
  const length = minutes === 1 ? "minute" : `${minutes} minutes`;
  of.chart.setAttribute("aria-label", `${of.name} a second: now ${words(rate)}, at most ${words(most)} in the last ${length}`);
}

async function look(charts) {
  const answer = await fetch("/v1/stat?figures=1", { credentials: "same-origin" });
  if (!answer.ok) {
    throw new Error(`the server answers ${answer.status}`);
  }
  const { figures } = await answer.json();
  const at = performance.now();
  if (last) {
    const seconds = (at - last.at) / 1000;
    for (const of of charts) {
      // A counter begins anew with its server.
      draw(of, Math.max(0, figures[of.figure] - last.figures[of.figure]) / seconds);
    }
    state.textContent = `Live, every ${SECONDS} seconds, while this page is to be seen.`;
  }
  last = { at, figures };
}

async function go(charts) {
  try {
    if (document.hidden) {
      last = null;
    } else {
      await look(charts);
    }
  } catch (error) {
    last = null;
    state.textContent = `Not live: ${error.message}. Another try follows.`;
  }
  setTimeout(() => go(charts), SECONDS * 1000);
}

for (const cell of document.querySelectorAll("[data-live]")) {
  cell.hidden = false;
}
go(rows.map(begin));
