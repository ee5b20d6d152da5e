const form = document.querySelector("form[hidden]");
const cases = [...document.querySelectorAll(".case")];
const shown = document.querySelector("output");
function filter() {
  const states = new Set([...form.querySelectorAll("input:checked")].map((box) => box.name));
  const words = form.elements.words.value.toLowerCase();
  let count = 0;
  for (const one of cases) {
    const fits = states.has(one.dataset.state) && (!words || one.textContent.toLowerCase().includes(words));
    one.hidden = !fits;
    count += fits ? 1 : 0;
  }
  shown.textContent = `${count} shown`;
}
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target) { target.hidden = false; target.open = true; target.scrollIntoView(); }
}
if (form) {
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
}
addEventListener("hashchange", openTarget);
openTarget();
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const one of closed) one.open = true;
});
addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
