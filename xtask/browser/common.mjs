// Starts Chromium, collects the complaints of its pages, and looks at a page in several windows.

import { chromium } from 'playwright-core';

const HEIGHT = 900;

export function ensure(holds, ...why) {
  if (!holds) throw new Error(why.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(' '));
}

/** A browser whose pages answer every question with yes. A script is there in each page before those of the page. */
export async function browser(program, script) {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const started = await chromium.launch({ executablePath: program, args });
  const context = await started.newContext({ viewport: { width: 768, height: HEIGHT } });
  if (script) await context.addInitScript(script);
  let complaints = [];
  context.on('dialog', (dialog) => dialog.accept());
  context.on('weberror', (error) => complaints.push(String(error.error())));
  context.on('console', (message) => {
    if (message.type() === 'error') complaints.push(`${message.text()} ${message.location().url}`);
  });
  return {
    open: async (url) => {
      const page = await context.newPage();
      await page.goto(url);
      return page;
    },
    /** Fails if pages complained since the last time of anything but what is expected. */
    complainsOnlyOf: (...expected) => {
      const others = complaints.filter((text) => !expected.some((part) => text.includes(part)));
      complaints = [];
      ensure(others.length === 0, 'the page complains:', others.join('\n'));
    },
    close: () => started.close(),
  };
}

/** Shows a page at each width, light and dark, and calls `look` with the name of the window. */
export async function inWindows(page, widths, height, look) {
  for (const width of widths) {
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      // What a page does after a change of its size, it does before the next frame.
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      await look(`${width}-${colorScheme}`, width);
    }
  }
}

/** At each width nothing is wider than the window, or hidden below it. Leaves a picture of each. */
export async function lookAtChat(page, name, pictures) {
  await inWindows(page, [360, 768, 1600], HEIGHT, async (window, width) => {
    const found = await page.evaluate(() => {
      const wide = [...document.querySelectorAll('body *')]
        .filter((element) => element.checkVisibility() && element.getBoundingClientRect().right > innerWidth + 0.5)
        .map((element) => element.outerHTML.slice(0, 80));
      const { bottom, top } = document.getElementById('form').getBoundingClientRect();
      const hidden = [...document.querySelectorAll('.ask button')].filter((button) => button.getBoundingClientRect().bottom > top);
      const { scrollWidth, scrollHeight } = document.documentElement;
      return { wide, hidden: hidden.length, bottom, scrollWidth, scrollHeight };
    });
    const fits = found.scrollWidth <= width && found.scrollHeight <= HEIGHT && found.bottom <= HEIGHT;
    ensure(found.wide.length === 0 && found.hidden === 0 && fits, `${name} in ${window}:`, found);
    await page.screenshot({ path: `${pictures}/${name}-${window}.png` });
  });
  await page.setViewportSize({ width: 768, height: HEIGHT });
}
