// The page of the API, drawn from the OpenAPI document of this service.

import { fill, find, h } from "../dom.js";
import { members, typeName, useComponents } from "./schema.js";
import { tryForm } from "./try.js";

const PREFIX = "/api/v1";

const main = find("#main");
const index = find("#index");

function operations(description) {
  return Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation, group: operation.tags[0] })),
  );
}

const short = (path) => path.replace(PREFIX, "");
const badge = (method) => h("span", { class: `method ${method.toLowerCase()}` }, method);

function parameterList(parameters) {
  return parameters.map((one) =>
    h(
      "div",
      { class: "member" },
      h("code", {}, one.name),
      " ",
      h("span", { class: "type" }, `${typeName(one.schema)}${one.required ? "" : " · optional"}`),
      one.description ? h("p", {}, one.description) : null,
    ),
  );
}

function bodyPart({ requestBody }) {
  if (!requestBody) return null;
  const kinds = Object.keys(requestBody.content);
  const schema = requestBody.content["application/json"].schema;
  const files = kinds.filter((one) => one !== "application/json");
  return [
    h("h3", {}, "Body"),
    files.length ? h("p", { class: "muted" }, "A picture file (", files.map((one, number) => [number ? ", " : "", h("code", {}, one)]), "), or JSON:") : null,
    members(schema) ?? h("p", { class: "muted" }, "An empty object, {}."),
  ];
}

function answerPart({ responses }) {
  const [status, response] = Object.entries(responses)[0];
  const [kind, { schema }] = Object.entries(response.content)[0];
  const errors = Object.entries(responses).filter(([number]) => Number(number) >= 400);
  return [
    h("h3", {}, `Answer ${status}`),
    schema ? [h("p", { class: "muted" }, typeName(schema)), members(schema)] : h("p", {}, h("code", {}, kind)),
    h("details", {}, h("summary", { class: "muted" }, "Errors"), h("div", { class: "members" }, errors.map(([number, one]) => h("div", { class: "member" }, h("code", {}, number), ` ${one.description}`)))),
  ];
}

function content({ method, path, operation }) {
  const parameters = operation.parameters?.length ? [h("h3", {}, "Parameters"), h("div", { class: "members" }, parameterList(operation.parameters))] : null;
  return h("div", { class: "content" }, h("div", {}, parameters, bodyPart(operation), answerPart(operation)), tryForm(method, path, operation));
}

function section(one) {
  const { method, path, operation } = one;
  const summary = h("summary", {}, badge(method), h("span", { class: "path" }, short(path)), h("span", { class: "muted" }, operation.summary));
  const made = h("details", { class: "operation", id: operation.operationId }, summary);
  made.addEventListener("toggle", () => made.open && made.children.length === 1 && made.append(content(one)));
  return made;
}

function indexOf(all, groups) {
  const list = h("div");
  const search = h("input", { type: "search", placeholder: "Find an operation", "aria-label": "Find an operation" });
  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/);
    const matching = all.filter(({ method, path, operation }) => words.every((word) => `${method} ${path} ${operation.summary}`.toLowerCase().includes(word)));
    fill(list, groups.map((group) => indexGroup(group, matching.filter((one) => one.group === group))), matching.length ? null : h("p", { class: "muted" }, "No operation has these words."));
    mark();
  };
  search.addEventListener("input", show);
  fill(index, search, list);
  show();
}

function indexGroup(group, found) {
  if (!found.length) return null;
  return [h("h2", {}, group), h("ul", {}, found.map(({ method, path, operation }) => h("li", {}, h("a", { href: `#${operation.operationId}` }, badge(method), short(path)))))];
}

const current = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));

function mark() {
  for (const link of index.querySelectorAll("a")) {
    if (link.hash === location.hash) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function openCurrent() {
  const made = current();
  if (made?.matches(".operation")) {
    made.open = true;
    made.scrollIntoView();
  }
  mark();
}

function draw(description) {
  useComponents(description.components.schemas);
  const all = operations(description);
  const groups = description.tags.map((one) => one.name);
  fill(
    main,
    h("div", { class: "intro" }, h("h1", {}, "HTTP API"), h("p", {}, `${all.length} operations below `, h("code", {}, `${location.origin}${PREFIX}`), ". Open one to read its parameters and to send a request to this service: what a request changes is changed in your library.")),
    groups.map((group) => h("section", {}, h("h2", {}, group), all.filter((one) => one.group === group).map(section))),
  );
  indexOf(all, groups);
  addEventListener("hashchange", openCurrent);
  openCurrent();
}

try {
  draw(await (await fetch(`${PREFIX}/openapi.json`)).json());
} catch (error) {
  fill(main, h("p", { class: "notice" }, `The page could not be drawn: ${error.message}`));
}
