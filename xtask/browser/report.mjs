// Opens HTML reports: nothing may be wider than the window, from a phone to a desk. Leaves pictures beside them.
// Usage: node report.mjs OPTIONS, where OPTIONS is JSON: {chromium, folder, pages, long}.

import { browser, ensure, inWindows } from './common.mjs';

const options = JSON.parse(process.argv[2]);
const chromium = await browser(options.chromium);
for (const name of options.pages) {
  const page = await chromium.open(`file://${options.folder}/${name}.html`);
  const shown = await page.evaluate(() => {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    const [navigation] = performance.getEntriesByType('navigation');
    return { shown: Math.round(paint?.startTime ?? -1), complete: Math.round(navigation.loadEventStart) };
  });
  await inWindows(page, [320, 768, 1600], 3200, async (window, width) => {
    const found = await page.evaluate(() => {
      const cases = document.querySelectorAll('.case').length;
      // Closed details and groups out of sight have no width.
      if (cases < 1000) {
        for (const group of document.querySelectorAll('.group')) group.style.contentVisibility = 'visible';
        for (const details of document.querySelectorAll('details')) details.open = true;
      }
      const right = (element) => element.getBoundingClientRect().right;
      const widest = [...document.querySelectorAll('body *')].reduce((a, b) => (right(b) > right(a) ? b : a));
      const { scrollWidth } = document.documentElement;
      return { cases, scrollWidth, widest: `${widest.tagName} ${widest.className}` };
    });
    ensure(found.scrollWidth <= width, `${name}.html is ${found.scrollWidth} px wide at ${width} px: ${found.widest}`);
    console.log(`${name}.html in ${window}: ${found.cases} cases, shown after ${shown.shown} ms, complete after ${shown.complete} ms`);
    if (name !== options.long) await page.screenshot({ path: `${options.folder}/${name}-${window}.png` });
  });
  await page.close();
}
chromium.complainsOnlyOf();
await chromium.close();
