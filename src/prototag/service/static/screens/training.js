// Training and history: training, writing of tags, models, and decisions.

import { get, post } from "../api.js";
import { ago, button, count, fill, h, percent, readable, thumbnail } from "../dom.js";
import { showError, showMessage } from "../toast.js";
import { confirm } from "../dialog.js";
import { changeBatch, redo, undo } from "../decisions.js";
import { isRunning, jobEvents, markRequested } from "../job_progress.js";
import { learn } from "../welcome.js";
import { placeWords } from "../write_places.js";
import { fillWrites } from "../writes.js";
import { currentSelection } from "../navigation.js";
import * as keys from "../keyboard.js";
import * as tags from "../tag_store.js";

const VERDICTS = { accepted: "accepted", rejected: "rejected", cleared: "cleared", complete: "complete", incomplete: "not complete" };

const POLL_MS = 250; // between two requests for the state of a job

export async function open(main, { params }) {
  let only = params.has("selection") ? currentSelection() : null; // pictures whose tags are written; null for all
  const stand = h("section", { class: "card" });
  const writing = h("section", { class: "card" });
  const models = h("section", { class: "card" });
  const past = h("section", { class: "card" });
  main.append(h("div", { class: "page" }, h("div", { class: "title" }, h("h1", {}, "Training and history")), stand, writing, models, past));

  async function load() {
    const [status, { models: known }, { decisions }, { write_places: places }] = await Promise.all([get("/library"), get("/models"), get("/history", { limit: 200 }), get("/settings")]);
    drawStand(status);
    if (!writing.dataset.planned) drawWriting(status, places);
    drawModels(known);
    drawPast(decisions);
  }

  // -- training ------------------------------------------------------------------------------------

  function drawStand(status) {
    const { model } = status;
    const busy = isRunning("learn");
    const words = !model ? "There is no model yet."
      : `Model ${model.number} was trained for ${count(model.tags, "tag")} on ${count(model.pictures, "picture")}, ${ago(model.trained_at)}. `
        + (status.decisions_since_retrain ? `The ${count(status.decisions_since_retrain, "decision")} since then updated it at once. ProtoTag retrains it automatically after enough decisions.` : "There are no decisions since then.");
    fill(stand, h("h2", {}, "Training"), h("p", {}, words),
      h("p", { class: "row" }, button(busy ? "Training…" : "Retrain now", "l", () => learn(true), { class: "main", disabled: busy }),
        button("Scan for new pictures", "", scan, { disabled: isRunning("scan") })),
      h("dl", { class: "figures" }, ...[["Pictures", status.pictures], ["Tagged", status.tagged], ["Tags", status.tags], ["Decisions", status.decisions], ["Suggestions", status.suggestions], ["Not scanned yet", status.unread]]
        .filter(([name, value]) => value || name !== "Not scanned yet").flatMap(([name, value]) => [h("div", {}, h("dt", {}, name), h("dd", {}, value.toLocaleString("en")))])));
  }
  async function scan() {
    try {
      markRequested((await post("/scan")).job);
    } catch (error) { showError(error); }
  }

  // -- writing -------------------------------------------------------------------------------------

  function drawWriting(status, places) {
    delete writing.dataset.planned;
    const waits = status.unwritten ? `${count(status.unwritten, "picture")} ${status.unwritten === 1 ? "has" : "have"} accepted tags that are not in files yet.` : "All accepted tags are in files.";
    const last = h("div", { hidden: true });
    fill(writing, h("h2", {}, "Write tags"),
      h("p", {}, `${waits} ${placeWords(places)} Your own tags stay. `, h("a", { href: "/settings" }, "Where tags are written")),
      h("p", { class: "row" }, button("Preview changes", "w", plan)), last);
    fillWrites(last).catch(showError);
  }
  async function plan() {
    if (writing.dataset.planned) return;
    writing.dataset.planned = "yes";
    fill(writing, h("h2", {}, "Write tags"), h("p", { role: "status" }, "Comparing files…"));
    try {
      const { state, result, problem } = await ended(await post("/sync/plan", only ? { pictures: only } : {}));
      if (!main.isConnected) return;
      if (state === "done") return drawPlan(result);
      if (problem) throw new Error(problem.detail);
      cancel();
    } catch (error) {
      showError(error);
      cancel();
    }
  }
  function cancel() {
    only = null;
    delete writing.dataset.planned;
    load().catch(showError);
  }
  function drawPlan(found) {
    const coming = [[found.incoming, "picture has", "pictures have", "new tags in files, which the library imports"], [found.rejected, "tag was", "tags were", "removed in files, which counts as rejecting"], [found.restored, "tag was", "tags were", "added again in files"], [found.kept, "rejected tag is", "rejected tags are", "in files as your own and stay there"]]
      .filter(([size]) => size).map(([size, one, many, words]) => h("li", {}, `${count(size, one, many)} ${words}.`));
    const some = found.outgoing || found.incoming || found.rejected || found.restored;
    const write = button(found.outgoing ? `Write ${fileWords(found.outgoing, found.inside)}` : "Import", "⏎", () => carryOut(found.plan), { class: "main", disabled: !some });
    fill(writing, h("h2", {}, `${some ? "Changes to write" : "Nothing to write"}${only ? `, of ${count(only.length, "selected picture")}` : ""}`),
      coming.length ? h("ul", {}, ...coming) : null,
      found.changes.length ? h("ul", { class: "plan" }, ...found.changes.map(changeItem)) : null,
      found.outgoing > found.changes.length ? h("p", { class: "muted" }, `and ${(found.outgoing - found.changes.length).toLocaleString("en")} more.`) : null,
      ...found.problems.map((one) => h("p", { class: "notice" }, one)),
      h("p", { class: "row" }, write, button("Cancel", "Esc", cancel)));
    write.focus();
  }
  function changeItem(change) {
    const name = change.file.split(/[/\\]/).slice(-2).join(" / ");
    const marks = [...change.added.map((tag) => h("span", { class: "chip here" }, `+ ${readable(tag)}`)), " ", ...change.removed.map((tag) => h("span", { class: "chip no" }, `− ${readable(tag)}`))];
    return h("li", {}, h("details", {}, h("summary", {}, h("span", { class: "file" }, name), " ", ...marks), h("pre", { tabindex: "0", "aria-label": `Changes in ${name}` }, change.diff)));
  }
  async function carryOut(name) {
    try {
      markRequested((await post("/sync", { plan: name })).job);
    } catch (error) {
      showError(error);
      cancel();
    }
  }

  // -- models and decisions ------------------------------------------------------------------------

  function drawModels(known) {
    models.hidden = !known.length;
    fill(models, h("h2", {}, "Models"), h("table", {},
      h("thead", {}, h("tr", {}, ...["Model", "Trained", "Pictures", "Tags", "Expected F1"].map((name, i) => h("th", { scope: "col", class: ["", "", "number wide", "number", "number"][i] }, name)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Use")))),
      h("tbody", {}, ...known.map((one) => h("tr", {}, h("th", { scope: "row" }, String(one.number)), h("td", {}, ago(one.trained_at)), h("td", { class: "number wide" }, one.pictures.toLocaleString("en")), h("td", { class: "number" }, one.tags.toLocaleString("en")), h("td", { class: "number" }, percent(one.f1)),
        h("td", {}, one.current ? h("strong", {}, "in use") : button("Use again", "", () => goBack(one.number))))))));
  }
  async function goBack(number) {
    if (!(await confirm(`Use model ${number} again?`, "All decisions stay, and ProtoTag updates the model with them.", "Use again"))) return;
    try {
      await post("/models/current", { number });
      tags.invalidate();
      showMessage(`Model ${number} is in use again.`);
      await load();
    } catch (error) { showError(error); }
  }
  function drawPast(decisions) {
    const batches = new Map();
    for (const one of decisions) batches.set(one.batch, [...(batches.get(one.batch) ?? []), one]);
    fill(past, h("div", { class: "row between" }, h("h2", {}, "Decisions"), h("span", { class: "group" }, button("Undo last", "z", () => after(undo)), button("Redo", "Z", () => after(redo)))),
      decisions.length ? h("ol", { class: "past" }, ...[...batches.values()].slice(0, 60).map((batch) => pastItem(batch, changed))) : h("p", { class: "muted" }, "There are no decisions yet."));
  }
  async function after(work) {
    await work();
    await load().catch(showError);
  }
  async function changed(batch, operation) {
    await after(() => changeBatch(batch, operation));
    past.querySelector(`[data-batch="${batch}"] button`)?.focus();
  }

  keys.use("Training and history", [
    { keys: ["l"], words: "Retrain now", run: () => void learn(true) },
    { keys: ["w"], words: "Preview changes of files", run: () => void plan() },
    { keys: ["z", "Ctrl+z"], shown: ["z"], words: "Undo the last decision of this tab", run: () => void after(undo) },
    { keys: ["Z", "Ctrl+Z", "Ctrl+y"], shown: ["Z"], words: "Redo the last undone decision", run: () => void after(redo) },
    { keys: ["Escape"], run: () => (writing.dataset.planned ? cancel() : false) },
  ]);
  const onJob = ({ detail }) => {
    if (detail.state === "running") return void (detail.kind === "learn" && stand.querySelector("button:not(:disabled).main") && load().catch(() => {}));
    if (detail.kind === "sync" && detail.state !== "failed") {
      if (detail.state === "done") showMessage(`${count(detail.result.written, "file was", "files were")} written.`);
      delete writing.dataset.planned;
    }
    load().catch(showError);
  };
  jobEvents.addEventListener("job", onJob);
  await load();
  if (only) plan();
  else main.focus({ preventScroll: true });
  return () => jobEvents.removeEventListener("job", onJob);
}

/** Return the words for files that are written: sidecars, pictures, or both. */
function fileWords(files, inside) {
  const parts = [[files - inside, "sidecar"], [inside, "picture"]].filter(([size]) => size);
  return parts.map(([size, name]) => count(size, name)).join(" and ");
}

/** Wait until a job has ended, and return it. */
async function ended(job) {
  while (job.state === "running") {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    job = await get(`/jobs/${job.job}`);
  }
  return job;
}

function pastItem(batch, changed) {
  const [first] = batch;
  const pictures = [...new Set(batch.map((one) => one.picture))];
  const names = [...new Set(batch.map((one) => one.tag).filter((tag) => tag !== null))].map(readable);
  const words = `${names.slice(0, 3).join(", ")} ${VERDICTS[first.verdict] ?? first.verdict}, ${count(pictures.length, "picture")}, ${ago(first.at)}${first.by === "person" ? "" : ` by ${first.by}`}`;
  const gone = batch.filter((one) => one.undone).length;
  const isUndone = gone === batch.length;
  const [name, operation] = isUndone ? ["Redo", "/redo"] : ["Undo", "/undo"];
  return h("li", { class: isUndone ? "undone" : undefined, "data-batch": first.batch },
    h("span", { class: "thumbs" }, ...pictures.slice(0, 6).map((number) => h("a", { href: `/picture/${number}`, "aria-label": `Picture ${number}` }, h("img", { src: thumbnail(number), alt: "", loading: "lazy" })))),
    h("span", { class: "what" }, words, isUndone ? h("em", {}, ", undone") : gone ? h("em", {}, `, ${gone} of ${batch.length} undone`) : null),
    button(name, "", () => changed(first.batch, operation), { "aria-label": `${name} ${words}` }));
}
