// Keeps the charts of the overview live: requests the view again, and replaces their rows by the
// newer ones. Without this script they are as of the time the page was loaded.
"use strict";

const SECONDS = 10; // between two points
const PARTS = ["rates", "times", "state"];
const state = document.getElementById("live");

async function look() {
  const answer = await fetch(location.href, { credentials: "same-origin" });
  if (!answer.ok) {
    throw new Error(`the server answers ${answer.status}`);
  }
  const view = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const name of PARTS) {
    document.getElementById(name).replaceChildren(...view.getElementById(name).childNodes);
  }
  state.textContent = `Live, every ${SECONDS} seconds, while this page is visible.`;
}

async function go() {
  try {
    if (!document.hidden) {
      await look();
    }
  } catch (error) {
    state.textContent = `Not live: ${error.message}. Retrying.`;
  }
  setTimeout(go, SECONDS * 1000);
}

setTimeout(go, SECONDS * 1000);
