// Questions to the service. What goes wrong is an error whose message can be shown as it is.

const API = "/api/v1";

async function answer(promise) {
  let response;
  try {
    response = await promise;
  } catch {
    throw new Error("prototag does not answer: is it still running?");
  }
  const found = await response.json().catch(() => ({}));
  if (response.ok) return found;
  const error = new Error(sentence(found.detail ?? `the service answered ${response.status}.`));
  error.status = response.status;
  error.kind = (found.type ?? "").split(/[:/]/).pop();
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
  const asked = query.size ? `?${query}` : "";
  return answer(fetch(`${API}${path}${asked}`));
}

export function post(path, body = {}) {
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return answer(fetch(`${API}${path}`, request));
}
