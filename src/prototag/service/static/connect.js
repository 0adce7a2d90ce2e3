// Connects a phone by the code in the address. A button asks first, so that programs which open
// links ahead do not use up the code.

import { post } from "./api.js";
import { find } from "./dom.js";

const code = new URLSearchParams(location.search).get("code") ?? "";
history.replaceState({}, "", "/connect");
const button = find("#connect");
button.addEventListener("click", async () => {
  button.disabled = true;
  try {
    await post("/phone/connect", { code });
    location.replace("/");
  } catch (error) {
    find("#answer").textContent = error.message;
    button.disabled = false;
  }
});
