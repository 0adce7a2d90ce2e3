// Requests to the service. Errors have messages that can be shown.

const API = "/api/v1";

async function parseResponse(promise) {
  let response;
  try {
    response = await promise;
  } catch {
    throw new Error("ProtoTag does not respond. Check that it is still running.");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const error = new Error(sentence(body.detail ?? `the service returned HTTP ${response.status}.`));
  error.status = response.status;
  error.kind = (body.type ?? "").split(/[:/]/).pop();
  throw error;
}

const sentence = (words) => words.charAt(0).toUpperCase() + words.slice(1);

export function get(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") query.append(name, one);
    }
  }
  const suffix = query.size ? `?${query}` : "";
  return parseResponse(fetch(`${API}${path}${suffix}`));
}

export function post(path, body = {}) {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return parseResponse(fetch(`${API}${path}`, request));
}
