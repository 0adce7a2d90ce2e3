// Training and history: what changed since, learning, models, decisions, and writing to sidecars.

import { get, post } from "../api.js";
import { ago, button, count, fill, h, percent, readable, thumbnail } from "../dom.js";
import { complain, say } from "../toast.js";
import { confirm } from "../dialog.js";
import { changeBatch, redo, undo } from "../decisions.js";
import { isRunning, news, wanted } from "../job_progress.js";
import { learn } from "../welcome.js";
import * as keys from "../keyboard.js";
import * as tags from "../tag_store.js";

const VERDICTS = { accepted: "yes", rejected: "no", cleared: "open again", complete: "complete", incomplete: "not complete" };

const LOOK = 250; // milliseconds between two looks at a job

export async function open(main) {
  const stand = h("section", { class: "card" });
  const writing = h("section", { class: "card" });
  const models = h("section", { class: "card" });
  const past = h("section", { class: "card" });
  main.append(h("div", { class: "page" }, h("div", { class: "title" }, h("h1", {}, "Training and history")), stand, writing, models, past));

  async function load() {
    const [status, { models: known }, { decisions }] = await Promise.all([get("/library"), get("/models"), get("/history", { limit: 200 })]);
    drawStand(status);
    if (!writing.dataset.planned) drawWriting(status);
    drawModels(known);
    drawPast(decisions);
  }

  // -- learning ------------------------------------------------------------------------------------

  function drawStand(status) {
    const { model } = status;
    const busy = isRunning("learn");
    const words = !model ? "Nothing is learned yet."
      : `Model ${model.number} learned ${count(model.tags, "tag")} from ${count(model.pictures, "picture")}, ${ago(model.made)}. `
        + (status.since ? `${count(status.since, "decision")} since: each was learned on at once; everything is learned anew by itself when there are many.` : "Nothing was decided since.");
    fill(stand, h("h2", {}, "Learning"), h("p", {}, words),
      h("p", { class: "row" }, button(busy ? "Learning…" : "Learn everything now", "l", () => learn(true), { class: "main", disabled: busy }),
        button("Look for new pictures", "", scan, { disabled: isRunning("scan") })),
      h("dl", { class: "figures" }, ...[["Pictures", status.pictures], ["With tags", status.tagged], ["Tags", status.tags], ["Decisions", status.decisions], ["Suggestions", status.waiting], ["Not read yet", status.unread]]
        .filter(([name, value]) => value || name !== "Not read yet").flatMap(([name, value]) => [h("div", {}, h("dt", {}, name), h("dd", {}, value.toLocaleString("en")))])));
  }
  async function scan() {
    try {
      wanted((await post("/scan")).job);
    } catch (error) { complain(error); }
  }

  // -- writing -------------------------------------------------------------------------------------

  function drawWriting(status) {
    delete writing.dataset.planned;
    const waits = status.unwritten ? `${count(status.unwritten, "picture")} ${status.unwritten === 1 ? "has" : "have"} accepted tags that no sidecar has yet.` : "All accepted tags are in sidecars.";
    fill(writing, h("h2", {}, "Write to sidecars"),
      h("p", {}, `${waits} Your pictures are never changed; tags go into .xmp files beside them, and what you wrote there stays.`),
      h("p", { class: "row" }, button("Show what would be written", "w", plan)));
  }
  async function plan() {
    if (writing.dataset.planned) return;
    writing.dataset.planned = "yes";
    fill(writing, h("h2", {}, "Write to sidecars"), h("p", { role: "status" }, "Looking at the files…"));
    try {
      const { state, result, problem } = await ended(await post("/sync/plan"));
      if (!main.isConnected) return;
      if (state === "done") return drawPlan(result);
      if (problem) throw new Error(problem.detail);
      cancel();
    } catch (error) {
      complain(error);
      cancel();
    }
  }
  function cancel() {
    delete writing.dataset.planned;
    load().catch(complain);
  }
  function drawPlan(found) {
    const coming = [[found.incoming, "picture has", "pictures have", "other tags in files than before: the library takes them over"], [found.rejected, "tag was", "tags were", "taken away in files: that is a no"], [found.restored, "tag was", "tags were", "given again in files"], [found.kept, "rejected tag is", "rejected tags are", "a person's own in files, and stay there"]]
      .filter(([size]) => size).map(([size, one, many, words]) => h("li", {}, `${count(size, one, many)} ${words}.`));
    const some = found.outgoing || found.incoming || found.rejected || found.restored;
    const write = button(found.outgoing ? `Write ${count(found.outgoing, "sidecar")}` : "Take over", "⏎", () => carryOut(found.plan), { class: "main", disabled: !some });
    fill(writing, h("h2", {}, some ? "This would be written" : "Nothing to write"),
      coming.length ? h("ul", {}, ...coming) : null,
      found.shown.length ? h("ul", { class: "plan" }, ...found.shown.map(changeItem)) : null,
      found.outgoing > found.shown.length ? h("p", { class: "muted" }, `and ${(found.outgoing - found.shown.length).toLocaleString("en")} more.`) : null,
      ...found.problems.map((one) => h("p", { class: "notice" }, one)),
      h("p", { class: "row" }, write, button("Not now", "Esc", cancel)));
    write.focus();
  }
  function changeItem(change) {
    const name = change.sidecar.split(/[/\\]/).slice(-2).join(" / ");
    const marks = [...change.added.map((tag) => h("span", { class: "chip here" }, `+ ${readable(tag)}`)), " ", ...change.removed.map((tag) => h("span", { class: "chip no" }, `− ${readable(tag)}`))];
    return h("li", {}, h("details", {}, h("summary", {}, h("span", { class: "file" }, name), " ", ...marks), h("pre", { tabindex: "0", "aria-label": `Change of ${name}` }, change.diff)));
  }
  async function carryOut(name) {
    try {
      wanted((await post("/sync", { plan: name })).job);
    } catch (error) {
      complain(error);
      cancel();
    }
  }

  // -- models and decisions ------------------------------------------------------------------------

  function drawModels(known) {
    models.hidden = !known.length;
    fill(models, h("h2", {}, "Models"), h("table", {},
      h("thead", {}, h("tr", {}, ...["Model", "Learned", "Pictures", "Tags", "Expected F1"].map((name, i) => h("th", { scope: "col", class: ["", "", "number wide", "number", "number"][i] }, name)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Use")))),
      h("tbody", {}, ...known.map((one) => h("tr", {}, h("th", { scope: "row" }, String(one.number)), h("td", {}, ago(one.made)), h("td", { class: "number wide" }, one.pictures.toLocaleString("en")), h("td", { class: "number" }, one.tags.toLocaleString("en")), h("td", { class: "number" }, percent(one.f1)),
        h("td", {}, one.current ? h("strong", {}, "in use") : button("Go back to it", "", () => goBack(one.number))))))));
  }
  async function goBack(number) {
    if (!(await confirm(`Go back to model ${number}?`, "All decisions stay, and are learned on to it.", "Go back"))) return;
    try {
      await post("/models/current", { number });
      tags.outdated();
      say(`Model ${number} is in use again.`);
      await load();
    } catch (error) { complain(error); }
  }
  function drawPast(decisions) {
    const batches = new Map();
    for (const one of decisions) batches.set(one.batch, [...(batches.get(one.batch) ?? []), one]);
    fill(past, h("div", { class: "row between" }, h("h2", {}, "Decisions"), h("span", { class: "group" }, button("Undo my last", "z", () => after(undo)), button("Redo", "Z", () => after(redo)))),
      decisions.length ? h("ol", { class: "past" }, ...[...batches.values()].slice(0, 60).map((batch) => pastItem(batch, changed))) : h("p", { class: "muted" }, "Nothing was decided yet."));
  }
  async function after(work) {
    await work();
    await load().catch(complain);
  }
  async function changed(batch, operation) {
    await after(() => changeBatch(batch, operation));
    past.querySelector(`[data-batch="${batch}"] button`)?.focus();
  }

  keys.use("Training and history", [
    { keys: ["l"], words: "Learn everything now", run: () => void learn(true) },
    { keys: ["w"], words: "Show what would be written to sidecars", run: () => void plan() },
    { keys: ["z", "Ctrl+z"], shown: ["z"], words: "Undo the last decision of this tab", run: () => void after(undo) },
    { keys: ["Z", "Ctrl+Z", "Ctrl+y"], shown: ["Z"], words: "Redo what was undone", run: () => void after(redo) },
    { keys: ["Escape"], run: () => (writing.dataset.planned ? cancel() : false) },
  ]);
  const told = ({ detail }) => {
    if (detail.state === "running") return void (detail.kind === "learn" && stand.querySelector("button:not(:disabled).main") && load().catch(() => {}));
    if (detail.kind === "sync" && detail.state !== "failed") {
      if (detail.state === "done") say(`${count(detail.result.written, "sidecar was", "sidecars were")} written.`);
      delete writing.dataset.planned;
    }
    load().catch(complain);
  };
  news.addEventListener("job", told);
  await load();
  main.focus({ preventScroll: true });
  return () => news.removeEventListener("job", told);
}

/** A job when it has ended. */
async function ended(job) {
  while (job.state === "running") {
    await new Promise((resolve) => setTimeout(resolve, LOOK));
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
