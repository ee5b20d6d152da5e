const form = document.querySelector("form");
const cases = [...document.querySelectorAll("details")];
const shown = document.querySelector("output");
function filter() {
  const states = new Set([...form.querySelectorAll("input:checked")].map((box) => box.name));
  const words = form.elements.words.value.toLowerCase();
  let count = 0;
  for (const one of cases) {
    const fits = states.has(one.dataset.state) && one.textContent.toLowerCase().includes(words);
    one.hidden = !fits;
    count += fits ? 1 : 0;
  }
  shown.textContent = `${count} shown`;
}
form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("submit", (event) => event.preventDefault());
let open = [];
addEventListener("beforeprint", () => {
  open = cases.map((one) => one.open);
  for (const one of cases) one.open = true;
});
addEventListener("afterprint", () => cases.forEach((one, at) => { one.open = open[at]; }));
filter();
