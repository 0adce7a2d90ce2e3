// Decisions: shown at once, sent in their order, taken back without limit.
//
// A step knows how it looks (forth) and how it looked before (back). Where the service refuses it, it
// is taken back on the page, too, and the reason is told.

import { post } from "./api.js";
import { complain, say } from "./say.js";
import { count, readable } from "./dom.js";
import * as tags from "./taglist.js";

const MANY = 1000; // decisions that one request may have
const steps = [];
let sending = Promise.resolve();

/** When all that was decided until now has reached the service. */
export const settled = () => sending;

function send(work) {
  sending = sending.then(work, work);
  return sending;
}

function forget(step) {
  const place = steps.indexOf(step);
  if (place >= 0) steps.splice(place, 1);
}

/** Decide on pairs of picture and tag: [{picture, tag, verdict}, ...]. */
export function decide(pairs, forth, back) {
  return take(async () => {
    let batches = 0;
    for (let start = 0; start < pairs.length; start += MANY) {
      const { changed } = await post("/decisions", { decisions: pairs.slice(start, start + MANY) });
      if (changed) batches += 1;
    }
    return batches;
  }, forth, back);
}

/** Say that a picture has all its tags, or that this is open again. */
export function complete(picture, is, forth, back) {
  return take(async () => (await post("/complete", { pictures: [picture], complete: is })).changed, forth, back);
}

function take(request, forth, back) {
  const step = { forth, back, batches: 0 };
  steps.push(step);
  forth();
  return send(async () => {
    try {
      step.batches = await request();
      if (!step.batches) forget(step); // it was so before
      tags.outdated();
      return true;
    } catch (error) {
      forget(step);
      back();
      complain(error);
      return false;
    }
  });
}

/** Take back the last step; of an earlier visit, too. */
export function undo() {
  const step = steps.pop();
  if (step) step.back();
  return send(async () => {
    try {
      if (step && !step.batches) return; // it was refused, or changed nothing
      const { decisions } = await post("/undo", { batches: step?.batches ?? 1 });
      tags.outdated();
      if (!decisions.length) say("There is nothing to take back.");
      else if (!step) say(`Taken back: ${told(decisions)}.`);
      else say(`Taken back for ${count(new Set(decisions.map((one) => one.picture)).size, "picture")}.`);
    } catch (error) {
      if (step) {
        steps.push(step);
        step.forth();
      }
      complain(error);
    }
  });
}

function told(decisions) {
  const [first] = decisions;
  const about = first.tag === null ? first.verdict : `${readable(first.tag)} ${first.verdict}`;
  return `${about} for ${count(new Set(decisions.map((one) => one.picture)).size, "picture")}`;
}
