// JSON Schemas of the OpenAPI document as elements, words and examples.

import { h } from "../dom.js";

const MAX_DEPTH = 6; // members within members that are shown and exemplified

let components = {};

export function useComponents(schemas) {
  components = schemas;
}

/** Return the schema that a reference names. */
export const resolve = (schema) => (schema.$ref ? components[schema.$ref.split("/").pop()] : schema);

const NAMES = { string: "text", integer: "whole number", boolean: "true or false" };

/** Describe the type of a value in words. */
export function typeName(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  const kinds = [schema.type ?? "any value"].flat();
  return kinds.map((kind) => (kind === "array" ? `list of ${typeName(schema.items)}` : `${NAMES[kind] ?? kind}${range(schema, kind)}`)).join(" or ");
}

function range(schema, kind) {
  if (kind !== "number" && kind !== "integer") return "";
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const from = schema.exclusiveMinimum === undefined ? "" : "above ";
  const most = schema.maximum;
  if (least === undefined) return "";
  return most !== undefined && most <= Number.MAX_SAFE_INTEGER ? `, ${from}${least} to ${most.toLocaleString("en")}` : `, ${from}${least} or more`;
}

/** Return the object schema inside a schema: itself, its items, or its values. */
function inner(schema) {
  const resolved = resolve(schema);
  if (resolved.anyOf) return resolved.anyOf.map(inner).find((one) => one) ?? null;
  if (resolved.type === "array") return inner(resolved.items);
  return resolved.properties ? resolved : null;
}

/** Return the members of an object schema as a nested list. */
export function members(schema, depth = 0) {
  const object = inner(schema);
  if (object === null || depth > MAX_DEPTH) return null;
  const entries = Object.entries(object.properties);
  if (!entries.length) return null;
  return h("div", { class: "members" }, entries.map(([name, one]) => member(name, one, object.required?.includes(name), depth)));
}

function member(name, schema, required, depth) {
  const line = [h("code", {}, name), " ", h("span", { class: "type" }, typeName(schema)), required ? null : h("span", { class: "type" }, " · optional")];
  const text = schema.description ? h("p", {}, schema.description) : null;
  const object = inner(schema);
  if (object === null || depth >= MAX_DEPTH) return h("div", { class: "member" }, line, text);
  const nested = h("details", {}, h("summary", {}, line));
  // The nested members are made when they are opened, because schemas may contain themselves.
  nested.addEventListener("toggle", () => nested.children.length === 1 && nested.append(members(schema, depth + 1) ?? ""), { once: true });
  return h("div", { class: "member" }, nested, text);
}

/** Return an example of a body: the required members, or the first one if none is required. */
export function example(schema, depth = 0) {
  const resolved = resolve(schema);
  if (resolved.anyOf) return example(resolved.anyOf[0], depth);
  if (resolved.enum) return resolved.enum[0];
  const kind = [resolved.type].flat()[0];
  if (kind === "object") {
    const names = resolved.required ?? [];
    const shown = depth < MAX_DEPTH ? names : [];
    return Object.fromEntries(shown.map((name) => [name, example(resolved.properties[name], depth + 1)]));
  }
  if (kind === "array") return [example(resolved.items, depth + 1)];
  if (kind === "integer" || kind === "number") return Math.max(resolved.minimum ?? 0, 1);
  if (kind === "boolean") return true;
  return kind === "string" ? "text" : null;
}
