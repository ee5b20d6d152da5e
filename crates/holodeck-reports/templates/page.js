const form = document.querySelector("form[hidden]");
const shown = document.querySelector("output");
const chunks = () => [...document.querySelectorAll(".chunk:not([data-added])")];
const source = (chunk) => chunk.nextElementSibling;
function add(chunk) {
  if (chunk.dataset.added) return;
  const added = document.createElement("template");
  added.innerHTML = source(chunk).textContent;
  chunk.querySelector("pre").replaceWith(added.content);
  source(chunk).remove();
  chunk.dataset.added = "1";
  chunk.hidden = false;
  if (form) filter();
}
const escaped = (text) => text.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
function filter() {
  const states = new Set([...form.querySelectorAll("input:checked")].map((box) => box.name));
  const words = form.elements.words.value.toLowerCase();
  let count = 0;
  for (const one of document.querySelectorAll(".case")) {
    const fits = states.has(one.dataset.state) && (!words || one.textContent.toLowerCase().includes(words));
    one.hidden = !fits;
    count += fits ? 1 : 0;
  }
  let closed = 0;
  for (const chunk of chunks()) {
    const has = chunk.dataset.states.trim().split(" ").some((state) => states.has(state));
    const fits = has && (!words || source(chunk).textContent.toLowerCase().includes(escaped(words)));
    chunk.hidden = !fits;
    closed += fits ? 1 : 0;
  }
  shown.textContent = `${count} shown` + (closed ? `, more in ${closed} closed ${closed === 1 ? "group" : "groups"}` : "");
}
function openTarget() {
  const id = location.hash.slice(1);
  if (!/^case-\d+$/.test(id)) return;
  const chunk = !document.getElementById(id) && chunks().find((one) => source(one).textContent.includes(`id="${id}"`));
  if (chunk) { add(chunk); chunk.open = true; }
  const target = document.getElementById(id);
  if (target) { target.hidden = false; target.open = true; target.scrollIntoView(); }
}
let waiting;
if (form) {
  form.hidden = false;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 150); });
  form.addEventListener("submit", (event) => event.preventDefault());
}
document.addEventListener("toggle", (event) => { if (event.target.open && event.target.matches(".chunk")) add(event.target); }, true);
addEventListener("hashchange", openTarget);
openTarget();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open]):not(.chunk)")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
