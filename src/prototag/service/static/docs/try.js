// The form that sends a request of one operation, and the same request for a terminal.

import { fill, h } from "../dom.js";
import { example, typeName } from "./schema.js";

const MAX_SHOWN = 200_000; // characters of an answer
const BODY_EXAMPLES = { AnnotateRequest: { path: "photo.jpg" }, SimilarRequest: { path: "photo.jpg" }, ExplainRequest: { path: "photo.jpg" }, AnnotateManyRequest: { paths: ["photo.jpg"], top: 5 } };

/** Return the form of an operation. */
export function tryForm(method, path, operation) {
  const inputs = (operation.parameters ?? []).map((parameter) => [parameter, parameterInput(parameter)]);
  const content = operation.requestBody?.content;
  const file = content?.["multipart/form-data"] ? h("input", { type: "file", accept: "image/*" }) : null;
  const text = content ? h("textarea", { "aria-label": "Body in JSON", spellcheck: "false" }) : null;
  if (text) text.value = JSON.stringify(exampleBody(content), null, 2);
  const command = h("pre");
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const request = () => buildRequest(method, path, inputs, file, text);
  const show = () => fill(command, curl(request()));
  const send = async (event) => {
    event.preventDefault();
    fill(answer, h("p", { class: "muted" }, "Sending."));
    fill(answer, ...(await sendRequest(request())));
  };
  const stream = operation.responses["200"]?.content?.["text/event-stream"];
  const form = h(
    "form",
    { class: "try", onsubmit: send, oninput: show },
    h("h3", {}, "Request"),
    inputs.map(([parameter, input]) => h("label", {}, h("code", {}, parameter.name), input)),
    file ? h("label", {}, "Picture file", file) : null,
    text ? h("p", { class: "muted" }, file ? "Or JSON, if no file is chosen:" : "JSON:") : null,
    text,
    stream ? h("p", { class: "muted" }, "This answer is a stream: use the command.") : h("p", { class: "buttons" }, h("button", { class: "main" }, "Send")),
    command,
    answer,
  );
  show();
  return form;
}

function exampleBody(content) {
  const schema = content["application/json"].schema;
  return BODY_EXAMPLES[schema.$ref?.split("/").pop()] ?? example(schema);
}

function parameterInput(parameter) {
  const required = parameter.in === "path" || parameter.required;
  const schema = parameter.schema;
  if (schema.enum || schema.type === "boolean") {
    const choices = (schema.enum ?? ["true", "false"]).map((one) => h("option", {}, String(one)));
    return h("select", { required }, required ? null : h("option", { value: "" }, ""), choices);
  }
  return h("input", { required, placeholder: typeName(schema), value: parameter.in === "path" ? "1" : "" });
}

function buildRequest(method, path, inputs, file, text) {
  let address = path;
  const query = new URLSearchParams();
  for (const [parameter, input] of inputs) {
    if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value !== "") query.append(parameter.name, input.value);
  }
  if (query.size) address += `?${query}`;
  if (file?.files.length) return { method, address, file: file.files[0] };
  return { method, address, json: text?.value };
}

const quoted = (words) => `'${words.replaceAll("'", "'\\''")}'`;

/** Return the curl command of a request. */
function curl({ method, address, file, json }) {
  const parts = ["curl"];
  if (method !== "GET" && !(method === "POST" && (file || json !== undefined))) parts.push(`-X ${method}`);
  parts.push(quoted(location.origin + address));
  if (file) parts.push(`-F file=@${quoted(file.name)}`);
  else if (json !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(compact(json))}`);
  return parts.length > 2 ? parts.join(" \\\n  ") : parts.join(" ");
}

function compact(json) {
  try {
    return JSON.stringify(JSON.parse(json));
  } catch {
    return json;
  }
}

async function sendRequest({ method, address, file, json }) {
  const options = { method };
  if (file) {
    options.body = new FormData();
    options.body.append("file", file);
  } else if (json !== undefined) {
    options.headers = { "Content-Type": "application/json" };
    options.body = json;
  }
  const began = performance.now();
  try {
    const response = await fetch(address, options);
    const status = h("p", { class: `status ${response.ok ? "right" : "wrong"}` }, `${response.status} ${response.statusText} · ${Math.round(performance.now() - began)} ms`);
    const kind = response.headers.get("content-type") ?? "";
    // The picture is loaded again from its address: the security policy allows no other source.
    if (kind.startsWith("image/")) return [status, h("img", { src: address, alt: "The picture of the answer" })];
    const text = await response.text();
    return [status, h("pre", {}, indented(text).slice(0, MAX_SHOWN))];
  } catch {
    return [h("p", { class: "status wrong" }, "ProtoTag does not respond. Check that it is still running.")];
  }
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
