for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  });
}
const again = document.querySelector("[data-again]");
function reload() {
  const isUsed = document.activeElement?.matches("input, select, textarea") || document.querySelector("tbody input:checked");
  if (isUsed) setTimeout(reload, 2000); else location.reload();
}
if (again) setTimeout(reload, Number(again.dataset.again) * 1000);
