// Decisions: shown at once, sent in their order, undone and redone without limit.
//
// A step knows how it looks (forth), how it looked before (back), and the batches that the service made
// of it. Undo and redo name these batches, so that a tab changes only what it decided itself; the
// batches outlive a reload of the tab (sessionStorage is its own). Where the service refuses a step,
// it is reverted on the page, too, and the reason is told.

import { post } from "./api.js";
import { complain, say } from "./toast.js";
import { count } from "./dom.js";
import * as tags from "./tag_store.js";

const MAX_ITEMS = 1000; // decisions that one request may have
const KEPT = `decisions ${document.body.dataset.library ?? ""}`; // of sessionStorage
const NEVER = [404, 409]; // answers to undo and redo of a batch that is pruned, or overridden by others
const nothing = () => {};
let done = [];
let undone = [];
let sending = Promise.resolve();

recall();

/** When all that was decided until now has reached the service. */
export const settled = () => sending;

function send(work) {
  sending = sending.then(work, work);
  return sending;
}

/** The steps of an earlier visit of this tab: known by their batches alone. */
function recall() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT)) ?? {};
    const steps = (lists) => (lists ?? []).map((batches) => ({ batches, forth: nothing, back: nothing }));
    done = steps(kept.done);
    undone = steps(kept.undone);
  } catch { /* none, or a browser that keeps nothing */ }
}

function keep() {
  const batches = (steps) => steps.map((step) => step.batches).filter((one) => one.length);
  try {
    sessionStorage.setItem(KEPT, JSON.stringify({ done: batches(done), undone: batches(undone) }));
  } catch { /* what is not kept is in the history */ }
}

const without = (steps, step) => steps.filter((one) => one !== step);

function forget(step) {
  done = without(done, step);
  undone = without(undone, step);
}

/** Decide on pairs of picture and tag: [{picture, tag, verdict}, ...]. */
export function decide(pairs, forth, back) {
  return take(async (batches) => {
    for (let start = 0; start < pairs.length; start += MAX_ITEMS) {
      const { batch } = await post("/decisions", { decisions: pairs.slice(start, start + MAX_ITEMS) });
      if (batch !== null) batches.push(batch);
    }
  }, forth, back);
}

/** Say that a picture has all its tags, or that this is open again. */
export function complete(picture, is, forth, back) {
  return take(async (batches) => {
    const { batch } = await post("/complete", { pictures: [picture], complete: is });
    if (batch !== null) batches.push(batch);
  }, forth, back);
}

function take(request, forth, back) {
  const step = { forth, back, batches: [] };
  done.push(step);
  undone = [];
  forth();
  return send(async () => {
    try {
      await request(step.batches);
      if (!step.batches.length) forget(step); // it was so before
      tags.outdated();
      return true;
    } catch (error) {
      if (!step.batches.length) forget(step);
      back();
      complain(error);
      return false;
    } finally {
      keep();
    }
  });
}

/** Undo the last step of this tab; of an earlier visit, too. */
export function undo() {
  const step = done.pop();
  if (!step) return send(() => say("This tab has nothing to undo. Training and history undoes any decision."));
  step.back();
  undone.push(step);
  return send(() => change(step, "/undo", [...step.batches].reverse()));
}

/** Redo what was undone last in this tab. */
export function redo() {
  const step = undone.pop();
  if (!step) return send(() => say("This tab has nothing to redo."));
  step.forth();
  done.push(step);
  return send(() => change(step, "/redo", step.batches));
}

/** Undo or redo one batch of the history, whoever decided it; it becomes the last step of this tab. */
export function changeBatch(batch, operation) {
  const step = { batches: [batch], forth: nothing, back: nothing };
  const known = [...done, ...undone].find((one) => one.batches.length === 1 && one.batches[0] === batch);
  return send(async () => {
    if (known) forget(known);
    (operation === "/undo" ? undone : done).push(step);
    await change(step, operation, [batch]);
  });
}

/** Undo or redo the batches of a step; where the service refuses all of them, the step is reverted. */
async function change(step, operation, batches) {
  const isUndo = operation === "/undo";
  const pictures = new Set();
  let kept = 0;
  let refused = null;
  try {
    if (!batches.length) return forget(step); // it was refused, or changed nothing
    for (const batch of batches) {
      try {
        const { decisions, overridden } = await post(operation, { batch });
        for (const one of decisions) pictures.add(one.picture);
        kept += overridden.length;
      } catch (error) {
        if (!NEVER.includes(error.status)) throw error;
        refused = error;
      }
    }
    if (!pictures.size) throw refused;
    const stays = kept ? ` ${count(kept, "decision")} stay${kept === 1 ? "s" : ""}, because others decided since.` : "";
    say(`${isUndo ? "Undone" : "Redone"} for ${count(pictures.size, "picture")}.${stays}`);
  } catch (error) {
    if (!pictures.size) revert(step, isUndo, error.status);
    complain(error);
  } finally {
    if (pictures.size) tags.outdated();
    keep();
  }
}

function revert(step, isUndo, status) {
  forget(step);
  if (isUndo) step.forth();
  else step.back();
  if (NEVER.includes(status)) return;
  (isUndo ? done : undone).push(step);
}
