// Progress of background jobs: scan, training, sync. Screens listen to `jobEvents`.

import { get, post } from "./api.js";
import { count, find, h } from "./dom.js";
import { showMessage } from "./toast.js";
import * as tags from "./tag_store.js";

const NAMES = { scan: "Scanning pictures", learn: "Training", plan: "Comparing files", sync: "Writing tags", undo_write: "Restoring files" };
const STOPPABLE = new Set(["scan", "learn", "sync", "undo_write"]); // finished steps are kept
const running = new Map();
const stopping = new Set();
const requested = new Set(); // jobs that were started on this page
export const jobEvents = new EventTarget(); // "job" with its record

export const isRunning = (kind) => [...running.values()].some((job) => job.kind === kind);
export const markRequested = (job) => void requested.add(job);

/** Resolve when the running jobs are known, so that no screen says that nothing runs meanwhile. */
export const jobsKnown = get("/jobs").then(({ jobs }) => {
  for (const job of jobs) if (job.state === "running") running.set(job.job, job);
  show();
}).catch(() => {});

export function listenToJobs() {
  const source = new EventSource("/api/v1/events");
  source.addEventListener("job", ({ data }) => take(JSON.parse(data)));
  source.addEventListener("open", () => running.clear());
  addEventListener("pagehide", () => source.close());
}

function take(job) {
  if (job.state === "running") running.set(job.job, job);
  else {
    running.delete(job.job);
    tags.invalidate();
    ended(job);
  }
  show();
  jobEvents.dispatchEvent(new CustomEvent("job", { detail: job }));
}

function ended(job) {
  const mine = requested.has(job.job);
  if (job.state === "failed") {
    if (mine || !["learn", "plan"].includes(job.kind)) showMessage(job.problem.detail, { wrong: true });
  } else if (job.kind === "learn" && job.result?.full) {
    const { pictures, tags: learned } = job.result.model;
    showMessage(mine ? `Trained ${count(learned, "tag")} on ${count(pictures, "picture")}.` : "Retraining is complete; suggestions are up to date.");
  } else if (job.kind === "sync" && job.result?.left) {
    showMessage(`Stopped. ${count(job.result.written, "file was", "files were")} written, ${job.result.left.toLocaleString("en")} left.`);
  } else if (job.kind === "undo_write" && job.result) {
    const { restored, problems } = job.result;
    showMessage(`${count(restored, "file was", "files were")} restored.${problems.length ? ` ${problems.length.toLocaleString("en")} stay as they are: ${problems[0]}` : ""}`, { wrong: problems.length > 0 });
  } else if (job.kind === "scan" && job.result?.new) {
    showMessage(`${count(job.result.new, "new picture")} scanned.`);
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
      h("span", { class: "words" }, `${stageOf(name, progress)}${far}`),
      STOPPABLE.has(kind) ? h("button", { type: "button", class: "stop", "data-job": job, disabled: stopping.has(job), "aria-label": `Stop ${name.toLowerCase()}`, onclick: () => stop(job) }, "Stop") : null);
  }));
  if (held) find(`[data-job="${held}"]`, room)?.focus();
}

/** Return what a job does now, such as "Scanning pictures: looking for tags". */
function stageOf(name, progress) {
  const stage = progress?.message || progress?.stage || "";
  if (!stage || stage.toLowerCase() === name.toLowerCase()) return name;
  return `${name}: ${stage.charAt(0).toLowerCase()}${stage.slice(1)}`;
}

function stop(job) {
  stopping.add(job);
  show();
  post(`/jobs/${job}/stop`).catch((error) => showMessage(error.message, { wrong: true }));
}
