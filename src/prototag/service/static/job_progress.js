// What happens beside the page: pictures being read, learning, writing. Screens are told of it.

import { post } from "./api.js";
import { count, find, h } from "./dom.js";
import { say } from "./toast.js";
import * as tags from "./tag_store.js";

const NAMES = { scan: "Reading pictures", learn: "Learning", plan: "Looking at sidecars", sync: "Writing sidecars" };
const STOPPABLE = new Set(["scan", "learn", "sync"]); // what they have done stays
const running = new Map();
const stopping = new Set();
const asked = new Set(); // jobs that somebody asked for on this page
export const news = new EventTarget(); // "job" with its record

export const isRunning = (kind) => [...running.values()].some((job) => job.kind === kind);
export const wanted = (job) => void asked.add(job);

export function follow() {
  const source = new EventSource("/api/v1/events");
  source.addEventListener("job", ({ data }) => take(JSON.parse(data)));
  source.addEventListener("open", () => running.clear());
  addEventListener("pagehide", () => source.close());
}

function take(job) {
  if (job.state === "running") running.set(job.job, job);
  else {
    running.delete(job.job);
    tags.outdated();
    ended(job);
  }
  show();
  news.dispatchEvent(new CustomEvent("job", { detail: job }));
}

function ended(job) {
  const mine = asked.has(job.job);
  if (job.state === "failed") {
    if (mine || !["learn", "plan"].includes(job.kind)) say(job.problem.detail, { wrong: true });
  } else if (job.kind === "learn" && job.result?.full) {
    const { pictures, tags: learned } = job.result.model;
    say(mine ? `Learned ${learned} tags from ${pictures.toLocaleString("en")} pictures.` : "Everything was learned anew; suggestions are up to date.");
  } else if (job.kind === "sync" && job.result?.left) {
    say(`Stopped. ${count(job.result.written, "sidecar was", "sidecars were")} written, ${job.result.left.toLocaleString("en")} left.`);
  } else if (job.kind === "scan" && job.result?.new) {
    say(`${job.result.new.toLocaleString("en")} new pictures were read.`);
  }
}

function show() {
  const room = find("#progress");
  const held = room.contains(document.activeElement) ? document.activeElement.dataset.job : null;
  room.replaceChildren(...[...running.values()].map(({ job, kind, progress }) => {
    const name = NAMES[kind] ?? kind;
    const far = progress?.total ? ` ${progress.done.toLocaleString("en")} of ${progress.total.toLocaleString("en")}` : "…";
    return h("span", { class: "job" },
      h("progress", { "aria-label": name, max: progress?.total || undefined, value: progress?.total ? String(progress.done) : undefined }),
      h("span", { class: "words" }, kind === "learn" && progress?.stage ? `${name}: ${progress.stage}` : name + far),
      STOPPABLE.has(kind) ? h("button", { type: "button", class: "stop", "data-job": job, disabled: stopping.has(job), "aria-label": `Stop ${name.toLowerCase()}`, onclick: () => stop(job) }, "Stop") : null);
  }));
  if (held) find(`[data-job="${held}"]`, room)?.focus();
}

function stop(job) {
  stopping.add(job);
  show();
  post(`/jobs/${job}/stop`).catch((error) => say(error.message, { wrong: true }));
}
