// Opens every kind of page of `holodeck view`: in four windows, light and dark, by axe's rules, and with the keyboard alone.
// Usage: node view.mjs OPTIONS, where OPTIONS is JSON: {chromium, url, pictures}. The link in `url` works once.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { browser, ensure, inWindows } from './common.mjs';

const options = JSON.parse(process.argv[2]);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// The page of a running run must hold still while it is looked at.
const still = 'const later = setTimeout; window.setTimeout = (work, ...more) => (work.name === "reload" ? 0 : later(work, ...more));';
const chromium = await browser(options.chromium, `${still}\n${axe}`);
const page = await chromium.open(options.url);
page.setDefaultTimeout(30_000);
const root = new URL(page.url()).origin;
const findings = [];
const found = (where, what) => {
  findings.push(`${where}: ${what}`);
  console.log(`  FOUND ${where}: ${what}`);
};

const go = async (path) => page.goto(new URL(path, root).href);

/** The address of a link of this page. */
const href = (selector) => page.locator(selector).first().getAttribute('href');

/** The pages of runs, by the beginning of the text of their link, the newest first. */
async function runsOf(agent) {
  await go(`/?q=${agent}`);
  return page.locator('tbody a').evaluateAll((links, agent) => links.filter((link) => link.textContent.startsWith(`${agent} `)).map((link) => link.getAttribute('href')), agent);
}

const id = (path) => path.split('/').at(-1);

async function axeFindings() {
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map((one) => `${one.id} (${one.impact}): ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
}

/** What is wider than its window, although it cannot be scrolled by itself. */
const widest = () => page.evaluate(() => {
  const scrolls = (element) => element !== document.body && element !== document.documentElement && getComputedStyle(element).overflowX !== 'visible';
  const inScroller = (element) => { for (let up = element.parentElement; up; up = up.parentElement) if (scrolls(up)) return true; return false; };
  const wide = [...document.querySelectorAll('body *')].filter((element) => element.checkVisibility() && !inScroller(element) && element.getBoundingClientRect().right > innerWidth + 0.5);
  return { scrollWidth: document.documentElement.scrollWidth, wide: wide.slice(0, 3).map((element) => element.outerHTML.slice(0, 120)) };
});

/** The page in each window: nothing beside it, no finding of axe, a picture. */
async function look(name) {
  console.log(name);
  await inWindows(page, [360, 768, 1440, 2560], 900, async (window, width) => {
    const { scrollWidth, wide } = await widest();
    if (scrollWidth > width || wide.length > 0) found(`${name} in ${window}`, `${scrollWidth} px wide: ${wide.join(' | ')}`);
    for (const finding of await axeFindings()) found(`${name} in ${window}`, finding);
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.screenshot({ path: `${options.pictures}/${name}-${window}.png`, clip: { x: 0, y: 0, width, height: Math.min(height, 2600) }, fullPage: true });
  });
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.emulateMedia({ colorScheme: 'light' });
}

/** Marks every control with its place in the order of the page; a group of radio buttons is one. */
const controls = () => page.evaluate(() => {
  const groups = new Set();
  let number = 0;
  for (const one of document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')) {
    if (one.type === 'hidden' || one.disabled || !one.checkVisibility({ visibilityProperty: true })) continue;
    if (one.type === 'radio') {
      if (groups.has(one.name)) continue;
      groups.add(one.name);
      const chosen = document.querySelector(`input[type=radio][name="${one.name}"]:checked`) ?? one;
      chosen.dataset.control = number++;
    } else one.dataset.control = number++;
  }
  return number;
});

/** By Tab alone: every control, in order, each with a visible mark; the first one skips to the content. */
async function tabThrough(name) {
  const count = await controls();
  await page.evaluate(() => { document.activeElement?.blur(); getSelection().removeAllRanges(); scrollTo(0, 0); });
  let next = 0;
  for (let stops = 0; stops < count + 60 && next < count; stops += 1) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const one = document.activeElement;
      const style = getComputedStyle(one);
      const { width, height, bottom, top } = one.getBoundingClientRect();
      return {
        control: one.dataset.control === undefined ? null : Number(one.dataset.control),
        marked: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
        shown: width > 0 && height > 0 && bottom > 0 && top < innerHeight,
        html: one.outerHTML.slice(0, 120),
        ended: one === document.body,
      };
    });
    if (at.ended) break;
    // What scrolls is a stop as well.
    if (at.control === null) continue;
    if (at.control !== next) return found(name, `Tab reaches control ${at.control} instead of ${next}: ${at.html}`);
    if (!at.marked || !at.shown) found(name, `the focus cannot be seen: ${at.html}`);
    if (next === 0 && !at.html.includes('#content')) found(name, `the first control skips nothing: ${at.html}`);
    next += 1;
  }
  if (next !== count) found(name, `Tab reaches ${next} of ${count} controls`);
  console.log(`  ${count} controls by Tab`);
}

/** Enter at the first control leads to the content: the next Tab is inside of it. */
async function skip(name) {
  await page.evaluate(() => { document.activeElement?.blur(); scrollTo(0, 0); });
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  const inside = await page.evaluate(() => document.querySelector('main').contains(document.activeElement) || document.activeElement === document.body);
  if (!inside) found(name, 'the first link does not skip to the content');
}

/** A kind of page, as it is opened. */
async function visit(name, path) {
  await go(path);
  await look(name);
  await go(path);
  await tabThrough(name);
  await go(path);
  await skip(name);
  chromium.complainsOnlyOf(...(name === 'nothing' ? ['404'] : []));
}

// Every run is read before pictures are made.
while ((await page.innerText('body')).includes('more being read')) await go('/');

const desk = await runsOf('support-desk');
const matrix = await runsOf('matrix');
const [trials] = await runsOf('trials-of-an-agent-with-a-long-name');
const [hostile] = await runsOf('hostile');
const [running] = await runsOf('running');
await go('/?q=legacy');
const file = await href('tbody a');
ensure(desk.length === 6 && matrix.length === 4 && trials && hostile && running && file, 'runs are missing:', { desk, matrix, trials, hostile, running, file });

await visit('list', '/');
await visit('list-page-2', '/?page=2');
await visit('list-of-one-agent', '/?q=support-desk');
await visit('list-damaged', '/?q=damaged');
await visit('list-legacy', '/?q=legacy');
await visit('list-empty', '/?q=there+is+no+such+run');
await visit('run', desk[0]);
await visit('run-chosen', `${desk[0]}?state=failed&q=lamp`);
await visit('run-none-chosen', `${desk[0]}?q=there+is+no+such+case`);
await visit('run-trials', trials);
await visit('run-running', running);
await visit('run-hostile', hostile);
await go(desk[0]);
const places = new Map(await page.locator('details.case').evaluateAll((cases) => cases.map((one) => [one.querySelector('summary b').textContent, one.id.split('-')[1]])));
await visit('case', `${desk[0]}/case/${places.get('where is my parcel')}`);
await visit('case-failed', `${desk[0]}/case/${places.get('refund after the deadline')}`);
await visit('case-trials', `${trials}/case/2`);
for (const number of [1, 2, 3]) await visit(`case-hostile-${number}`, `${hostile}/case/${number}`);
await visit('case-to-save', `${desk[0]}/case/${places.get('refund after the deadline')}/save`);
await visit('run-of-a-matrix', matrix[0]);
await visit('run-file', file);
await visit('compare', `/compare?run=${id(desk[0])}&run=${id(desk[5])}`);
await visit('table', `/compare?${matrix.map((run) => `run=${id(run)}`).join('&')}&table=1`);
await visit('table-different', `/compare?${matrix.map((run) => `run=${id(run)}`).join('&')}&table=1&different=1`);
await visit('conversations', '/conversations');
const talks = new Map(await page.locator('tbody a').evaluateAll((links) => links.map((link) => [link.textContent, link.getAttribute('href')])));
const [talk, hostileTalk] = ['Where is order 1042?', 'script'].map((title) => talks.get(title));
ensure(talks.size === 3 && talk && hostileTalk, 'conversations are missing:', [...talks.keys()]);
await visit('conversation', talk);
await visit('conversation-hostile', hostileTalk);
await visit('nothing', '/there-is-nothing-here');

console.log('hostile texts are texts');
ensure((await page.title()) !== 'run', 'a text of a model was run');
for (const path of [hostile, `${hostile}/case/1`, '/?q=hostile', hostileTalk]) {
  await go(path);
  const shown = await page.evaluate(() => ({ title: document.title, images: document.images.length, text: document.body.innerText }));
  ensure(shown.title !== 'run' && shown.images === 0, `${path} ran a text`, shown.title);
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u.exec(shown.text);
  if (hidden) found(path, `a hidden character: ${JSON.stringify(shown.text.slice(hidden.index - 20, hidden.index + 20))}`);
}

console.log('the keyboard alone: choose two runs, compare them, and come back');
await go('/?q=support-desk');
const boxes = page.locator('tbody input');
for (const number of [0, 1]) {
  await boxes.nth(number).focus();
  await page.keyboard.press('Space');
  ensure(await boxes.nth(number).isChecked(), 'Space chooses no run');
}
await page.locator('button', { hasText: 'Compare two' }).focus();
await Promise.all([page.waitForURL(/compare/), page.keyboard.press('Enter')]);
ensure((await page.locator('h1').innerText()).startsWith('support-desk'), 'no comparison');
const back = page.locator('nav a', { hasText: 'All runs' });
if ((await back.count()) === 0) found('compare', 'no link leads back to the list');
else {
  await back.focus();
  await Promise.all([page.waitForURL(`${root}/`), page.keyboard.press('Enter')]);
}

console.log('the keyboard alone: open a case, say something about it');
await go(desk[0]);
const summary = await page.locator('details.case:not([open]) > summary').first().elementHandle();
await summary.focus();
await page.keyboard.press('Enter');
ensure(await summary.evaluate((one) => one.parentElement.open), 'Enter opens no case');
await page.keyboard.press('Space');
ensure(!(await summary.evaluate((one) => one.parentElement.open)), 'Space closes no case');
await go(`${desk[0]}/case/${places.get('a discount')}`);
await page.locator('input[name=passed][value=""]').focus();
await page.keyboard.press('ArrowUp');
ensure(await page.locator('input[name=passed][value=no]').isChecked(), 'an arrow chooses no thumb');
await page.locator('textarea[name=comment]').focus();
await page.keyboard.insertText('There is a discount since May.');
await page.locator('form.label button', { hasText: 'Save' }).focus();
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
ensure((await page.locator('textarea[name=comment]').inputValue()) === 'There is a discount since May.', 'the comment was not kept');
await visit('case-labelled', new URL(page.url()).pathname);

console.log('the keyboard alone: tag a run, choose the tag, take it away');
await go(desk[0]);
await page.locator('input[name=tag]').focus();
await page.keyboard.type('before/change');
await page.keyboard.press('Tab');
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
await visit('run-tagged', desk[0]);
await visit('list-of-a-tag', '/?run_tag=before%2Fchange');
ensure((await page.locator('tbody tr').count()) === 1, 'the tag is not of one run');
await go(desk[0]);
await page.locator('input[name=tag]').focus();
await page.keyboard.type('before/change');
await page.keyboard.press('Tab');
await page.keyboard.press('Tab');
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
ensure((await page.locator('.tag').count()) === 0, 'the tag is still there');

console.log('the keyboard alone: save a case');
await go(`${desk[0]}/case/${places.get('opening hours')}/save`);
await page.locator('input[name=name]').focus();
await page.keyboard.press('Control+A');
await page.keyboard.type('opening hours on a Saturday');
await page.locator('main button').last().focus();
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
ensure((await page.innerText('body')).includes('agent.yaml'), 'the page does not say where the case is');
await look('case-saved');

console.log('the keyboard alone: make a test of a turn');
await go(talk);
await page.locator('button', { hasText: 'Make a test' }).first().focus();
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
await look('turn-to-save');
await page.locator('input[name=name]').focus();
await page.keyboard.press('Control+A');
await page.keyboard.type('where is order 1042');
await page.locator('main button').last().focus();
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
ensure((await page.innerText('body')).includes('agent.yaml'), 'the page does not say where the test of the turn is');
await look('turn-saved');

console.log('the keyboard alone: into the trash, and back');
await go('/?q=quickstart');
const before = await page.locator('.totals').first().innerText();
await page.locator('tbody input').first().focus();
await page.keyboard.press('Space');
await page.locator('button', { hasText: 'trash' }).focus();
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
await visit('trash', '/?q=hostile');
// The run and its run file.
const restore = page.locator('button', { hasText: 'Move back' });
for (let files = await restore.count(); files > 0; files -= 1) {
  await restore.first().focus();
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  ensure((await restore.count()) === files - 1, 'the run is still in the trash');
}
await go('/?q=quickstart');
ensure((await page.locator('.totals').first().innerText()) === before, 'the run did not come back');

chromium.complainsOnlyOf();
await chromium.close();
ensure(findings.length === 0, `${findings.length} findings:\n${findings.join('\n')}`);
