// Decisions with optimistic updates: shown at once, sent in order, with unlimited undo and redo.
//
// A step has functions that show it (apply) and hide it (revert), and the batches of decisions that the
// service created for it. Undo and redo name these batches, so that a tab changes only its own decisions;
// sessionStorage keeps them across reloads. If the service refuses a step, the page reverts it and
// shows the reason.

import { post } from "./api.js";
import { showError, showMessage } from "./toast.js";
import { count } from "./dom.js";
import * as tags from "./tag_store.js";

const MAX_DECISIONS = 1000; // in one request, a limit of the service
const STORAGE_KEY = `decisions ${document.body.dataset.library ?? ""}`; // key in sessionStorage
const PERMANENT_ERRORS = [404, 409]; // of undo and redo: the batch was pruned, or overridden by later decisions
const nothing = () => {};
let done = [];
let undone = [];
let sending = Promise.resolve();

recall();

/** Resolve once all decisions so far have reached the service. */
export const allSent = () => sending;

function send(work) {
  sending = sending.then(work, work);
  return sending;
}

/** Restore the steps before a reload of this tab, which have batches only. */
function recall() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORAGE_KEY)) ?? {};
    const steps = (lists) => (lists ?? []).map((batches) => ({ batches, apply: nothing, revert: nothing }));
    done = steps(kept.done);
    undone = steps(kept.undone);
  } catch { /* nothing is stored, or storage is disabled */ }
}

function keep() {
  const batches = (steps) => steps.map((step) => step.batches).filter((one) => one.length);
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify({ done: batches(done), undone: batches(undone) }));
  } catch { /* the history has all decisions */ }
}

const without = (steps, step) => steps.filter((one) => one !== step);

function forget(step) {
  done = without(done, step);
  undone = without(undone, step);
}

/** Send decisions: [{picture, tag, verdict}, ...]. */
export function decide(pairs, apply, revert) {
  return take(async (batches) => {
    for (let start = 0; start < pairs.length; start += MAX_DECISIONS) {
      const { batch } = await post("/decisions", { decisions: pairs.slice(start, start + MAX_DECISIONS), new: true });
      if (batch !== null) batches.push(batch);
    }
  }, apply, revert);
}

/** Mark a picture as complete, or not. */
export function complete(picture, is, apply, revert) {
  return take(async (batches) => {
    const { batch } = await post("/complete", { pictures: [picture], complete: is });
    if (batch !== null) batches.push(batch);
  }, apply, revert);
}

function take(request, apply, revert) {
  const step = { apply, revert, batches: [] };
  done.push(step);
  undone = [];
  apply();
  return send(async () => {
    try {
      await request(step.batches);
      if (!step.batches.length) forget(step); // nothing changed
      tags.invalidate();
      return true;
    } catch (error) {
      if (!step.batches.length) forget(step);
      revert();
      showError(error);
      return false;
    } finally {
      keep();
    }
  });
}

/** Undo the last step of this tab, also from before a reload. */
export function undo() {
  const step = done.pop();
  if (!step) return send(() => showMessage("This tab has nothing to undo. You can undo any decision in Training and history."));
  step.revert();
  undone.push(step);
  return send(() => change(step, "/undo", [...step.batches].reverse()));
}

/** Redo the step that was undone last in this tab. */
export function redo() {
  const step = undone.pop();
  if (!step) return send(() => showMessage("This tab has nothing to redo."));
  step.apply();
  done.push(step);
  return send(() => change(step, "/redo", step.batches));
}

/** Undo or redo any batch of the history; it becomes the last step of this tab. */
export function changeBatch(batch, operation) {
  const step = { batches: [batch], apply: nothing, revert: nothing };
  const known = [...done, ...undone].find((one) => one.batches.length === 1 && one.batches[0] === batch);
  return send(async () => {
    if (known) forget(known);
    (operation === "/undo" ? undone : done).push(step);
    await change(step, operation, [batch]);
  });
}

/** Undo or redo the batches of a step; revert the step if the service refuses all of them. */
async function change(step, operation, batches) {
  const isUndo = operation === "/undo";
  const pictures = new Set();
  let kept = 0;
  let refused = null;
  try {
    if (!batches.length) return forget(step); // the step was refused, or changed nothing
    for (const batch of batches) {
      try {
        const { decisions, overridden } = await post(operation, { batch });
        for (const one of decisions) pictures.add(one.picture);
        kept += overridden.length;
      } catch (error) {
        if (!PERMANENT_ERRORS.includes(error.status)) throw error;
        refused = error;
      }
    }
    if (!pictures.size) throw refused;
    const stays = kept ? ` ${count(kept, "decision")} stay${kept === 1 ? "s" : ""}, because of later decisions.` : "";
    showMessage(`${isUndo ? "Undone" : "Redone"} for ${count(pictures.size, "picture")}.${stays}`);
  } catch (error) {
    if (!pictures.size) revertStep(step, isUndo, error.status);
    showError(error);
  } finally {
    if (pictures.size) tags.invalidate();
    keep();
  }
}

function revertStep(step, isUndo, status) {
  forget(step);
  if (isUndo) step.apply();
  else step.revert();
  if (PERMANENT_ERRORS.includes(status)) return;
  (isUndo ? done : undone).push(step);
}
