// Shows what `events` tells. What others have chosen (names, commands, reasons) becomes text and nothing else:
// every node is made by `make` and `svg`, and the page's policy refuses markup.
//
// This is one file because the page asks for one script. So all of its code comes in one answer of one
// `navlock web`, and no part of it from the next one that listens at the same address. Headings divide the file.
'use strict';

const find = (id) => document.getElementById(id);

/** What there is. Times are the server's, in milliseconds since 1970. */
const all = { head: {}, clients: new Map(), agents: new Map(), names: new Map(), tree: [], deadlocks: [] };
/** How far the server's clock is ahead of ours. */
let skew = 0;
const now = () => Date.now() + skew;

// ---- Nodes ----

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  return fill(node, attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== ''));
  return node;
}

/** Says something anew, if it is anything new: what is read or selected is left alone otherwise. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** What nodes show, by key: each item as it was shown, and the node. */
const shown = new WeakMap();

/**
 * Has `parent` show `items`, each by the node that has shown it so far, or by a new one if it, or what `others`
 * it is shown with, is otherwise by now. What has the focus keeps it.
 */
function sync(parent, items, keyOf, show, others = () => []) {
  const before = shown.get(parent) ?? new Map();
  const rows = new Map();
  const keys = new Set(items.map(keyOf));
  for (const [key, { node }] of before) if (!keys.has(key)) node.remove();
  const focused = parent.contains(document.activeElement) ? document.activeElement : undefined;
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    if (rows.has(key)) continue;
    const told = JSON.stringify([item, others(item)]);
    let row = before.get(key);
    if (!row || row.told !== told) {
      const node = show(item);
      if (row) {
        // Within it, the focus goes to what is at the same place now.
        const inside = focused && row.node.contains(focused) ? focusable(row.node).indexOf(focused) : -1;
        if (place === row.node) place = node;
        row.node.replaceWith(node);
        if (inside >= 0) focusable(node)[inside]?.focus();
      }
      row = { node, told };
    }
    rows.set(key, row);
    if (row.node === place) place = place.nextElementSibling;
    else if (row.node.isConnected && parent.moveBefore) parent.moveBefore(row.node, place);
    else parent.insertBefore(row.node, place);
  }
  shown.set(parent, rows);
  if (focused?.isConnected && document.activeElement !== focused && document.activeElement === document.body) focused.focus();
  tick(parent);
}

const focusable = (node) => [...node.querySelectorAll('a[href], button')];

// ---- Words ----

/** What stands for nothing, turns a line around, or cannot be seen. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

const escaped = (char) => ({ '\n': '\\n', '\r': '\\r', '\t': '\\t' })[char] ?? `\\u{${char.codePointAt(0).toString(16)}}`;

const printable = (text) => text.replace(HIDDEN, escaped);

/** The beginning, if it is too long to be shown. */
function clipped(text, longest) {
  const chars = text.length > longest ? [...text] : text;
  return chars.length > longest ? `${chars.slice(0, longest).join('')}…` : text;
}

/** A name as it is, or in quotes where that could mislead. */
function plain({ name, nameLength }, longest = 72) {
  const isOdd = name === '' || name.startsWith('"') || name !== name.trim() || name.search(HIDDEN) >= 0;
  const text = isOdd ? `"${printable(name.replace(/["\\]/g, '\\$&'))}"` : name;
  return clipped(text, longest) + (nameLength ? ` (${count(nameLength)} characters)` : '');
}

const count = (number) => number.toLocaleString('en');

const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** 12s, 3m05s, 2h10m, 4d03h. */
function elapsed(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const two = (unit, large, part, small) => {
    const parts = Math.floor((seconds % unit) / part);
    return `${Math.floor(seconds / unit)}${large}${parts ? `${String(parts).padStart(2, '0')}${small}` : ''}`;
  };
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return two(60, 'm', 1, 's');
  if (seconds < 86400) return two(3600, 'h', 60, 'm');
  return two(86400, 'd', 3600, 'h');
}

/** The same, to the millisecond where it is short. */
function taken(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)}s` : elapsed(ms);
}

const clock = (ms) => new Date(ms - skew).toLocaleTimeString('en-GB');

/** A time that goes on. */
const age = (since, attributes = {}) => make('span', { 'data-since': since, ...attributes });

/** A time that runs out. */
const left = (until) => make('span', { 'data-until': until });

/** That a machine has not been heard of, and for how long it still has what it has. */
const silence = ({ since, ends }) => ['not heard of for ', age(since), ', ends in ', left(ends)];

function tick(parent = document) {
  for (const node of parent.querySelectorAll('[data-until]')) say(node, elapsed(Number(node.dataset.until) - now()));
  for (const node of parent.querySelectorAll('[data-since]')) {
    const ms = now() - Number(node.dataset.since);
    say(node, elapsed(ms));
    if (node.dataset.long) node.classList.toggle('long', ms >= 10_000);
  }
}

const text = (string, longest = 120) => make('span', { class: 'text', title: string.length > longest ? printable(string) : undefined }, printable(clipped(string, longest)));

/** What runs, without the folders of the program: what a `navlock run` waits to run is said as well. */
function program(info) {
  const words = (info?.command ?? '').split(' ');
  const programs = words[0].endsWith('navlock') && words[1] === 'run' ? [0, 2] : [0];
  for (const at of programs) if (words[at]) words[at] = words[at].replace(/^.*\/(?=.)/, '');
  return clipped(printable(words.join(' ')), 48);
}

/** Who it is, as one line of text. */
function whoText(info) {
  if (!info) return 'somebody';
  const called = program(info) || 'process';
  return `${called}${info.pid ? `[${info.pid}]` : ''}`;
}

/** The same as nodes, with whose it is and why. */
function who(info, { place = true, why = true } = {}) {
  if (!info) return make('span', { class: 'who aside' }, 'somebody unknown');
  const at = [info.user, info.host].filter(Boolean).map(printable).join('@');
  return make('span', { class: 'who' },
    make('span', { class: 'text' }, program(info) || 'process'),
    info.pid ? make('span', { class: 'pid' }, `[${info.pid}]`) : '',
    place && at && (info.host !== all.head.host || (all.head.user ?? info.user) !== info.user) ? make('span', { class: 'aside' }, ` ${clipped(at, 40)}`) : '',
    why && info.why ? make('span', { class: 'aside' }, ' (', text(info.why, 60), ')') : '');
}

// What is known of the agent of a lock or request, with what the lock is for.
function agentOf(entry) {
  const info = all.agents.get(entry.agent);
  return entry.why === undefined ? info : { ...info, why: entry.why };
}

function nameLink(key, longest) {
  const name = all.names.get(key);
  if (!name) return make('span', { class: 'name' }, '?');
  const shown = plain(name, longest);
  return make('a', { href: `#/name/${key}`, class: `name${shown.startsWith('"') ? ' odd' : ''}` }, shown);
}

const bucketOf = (name) => (name.bucket === 'default' ? '' : make('span', { class: 'bucket' }, ' in ', text(name.bucket, 40)));

// ---- What is asked for ----

const filter = { bucket: '', words: [] };

/** Whether all words are in some of the texts. */
function matches(...texts) {
  if (filter.words.length === 0) return true;
  const hay = texts.filter(Boolean).join('\n').toLowerCase();
  return filter.words.every((word) => hay.includes(word));
}

const textsOf = (info) => (info ? [info.command, info.pid, info.user, info.host, info.why] : []);

function nameMatches(name) {
  if (filter.bucket && name.bucket !== filter.bucket) return false;
  if (filter.words.length === 0) return true;
  return matches(name.name, name.bucket, ...[...name.held, ...name.pending].flatMap((entry) => textsOf(agentOf(entry))));
}

const isFiltered = () => filter.bucket !== '' || filter.words.length > 0;

/** How many rows are shown of each table. */
const room = { names: 200, clients: 200 };

function more(button, key, total) {
  const left = total - room[key];
  button.hidden = left <= 0;
  if (left > 0) say(button, `Show ${Math.min(200, left)} more of ${count(total)}`);
}

// ---- Now ----

const compare = (a, b) => (a === b ? 0 : a < b ? -1 : 1);

const oldest = (entries) => entries.reduce((least, entry) => Math.min(least, entry.since), Infinity);

function showNow() {
  const names = [...all.names.values()].filter(nameMatches);
  const waited = names.filter((name) => name.pendingCount > 0);
  const waiting = waited.reduce((sum, name) => sum + name.pendingCount, 0);
  const held = names.reduce((sum, name) => sum + name.heldCount, 0);
  const longest = Math.min(...waited.map((name) => oldest(name.pending)));
  const { broker } = all.head;
  const head = find('now-head');
  const lead = waiting > 0
    ? [make('strong', {}, plural(waiting, 'request')), ` ${waiting === 1 ? 'waits' : 'wait'}, the longest for `, age(longest), '.']
    : [broker === 'none' ? 'No broker runs: nobody holds anything.' : broker === 'failed' ? 'The broker cannot be looked at.' : broker === 'stopped' ? 'The broker is stopped.' : 'Nobody waits.'];
  put(head, JSON.stringify([waiting, longest, broker]), lead);
  const owned = names.filter((name) => name.owned.length > 0).length;
  say(find('now-more'), broker === 'failed' || broker === 'stopped' ? all.head.error : broker === 'none'
    ? 'One starts by itself when a lock is asked for, and shows here.'
    : `${plural(held, 'lock')} ${held === 1 ? 'is' : 'are'} held, of ${plural(names.length, 'name')} in use.`
      + (owned ? ` ${plural(owned, 'name')} ${owned === 1 ? 'is' : 'are'} kept ready by who had them last.` : '')
      + (all.head.leftOut ? ` ${plural(all.head.leftOut, 'more lock or request', 'more locks and requests')} ${all.head.leftOut === 1 ? 'is' : 'are'} not shown.` : '')
      + (isFiltered() ? ' Filtered.' : ''));

  const certain = all.deadlocks.filter(({ certain }) => certain).length;
  const alarm = find('now-deadlock');
  alarm.hidden = all.deadlocks.length === 0;
  if (!alarm.hidden) {
    const words = certain > 0
      ? `${plural(certain, 'deadlock')}: some wait for each other, and none of them goes on.`
      : `${plural(all.deadlocks.length, 'possible deadlock')}.`;
    put(alarm, words, [`${words} `, make('a', { href: '#/deadlocks' }, 'See who')]);
  }

  const roots = all.tree.filter((root) => root.rows.some(({ key }) => nameMatches(all.names.get(key) ?? { bucket: '', name: '', held: [], pending: [] })));
  find('now-tree').hidden = roots.length === 0;
  sync(find('tree'), roots, (root) => root.rows[0].entry.id, showRoot, ({ rows }) => rows.map(({ entry }) => agentOf(entry)));

  find('now-names').hidden = names.length === 0;
  // Those that are waited for the longest come first, then those that are held the longest.
  const order = names.map((name) => ({ name, waits: oldest(name.pending), held: oldest(name.held) }));
  order.sort((a, b) => compare(a.waits, b.waits) || compare(a.held, b.held) || a.name.key - b.name.key);
  const rows = order.slice(0, room.names).map(({ name, waits, held }) => {
    const { key, bucket, heldCount, pendingCount } = name;
    const [holder, owner] = [name.held[0], name.owned[0]].map((entry) => entry && { mode: entry.mode, info: agentOf(entry) ?? null });
    return { key, name: plain(name), bucket, heldCount, pendingCount, held, waits, holder, owner };
  });
  sync(find('names').tBodies[0], rows, ({ key }) => key, showNameRow);
  more(find('names-more'), 'names', names.length);
}

/** Has a node these children, if they are others than before. */
function put(node, told, children) {
  if (node.told === told) return;
  node.told = told;
  node.replaceChildren(...children);
  tick(node);
}

function showRoot(root) {
  return make('div', { class: 'root' },
    root.cycle ? make('p', {}, make('strong', {}, 'A cycle'), ': each of these waits for another one.') : '',
    make('ol', { class: 'rows' },
      root.rows.map((row) => showRow(row, root.blocks)),
      root.more ? make('li', { class: 'aside' }, `and ${count(root.more)} more`) : ''));
}

const KIND = {
  held: 'waits for the lock',
  ahead: 'waits behind this request',
  inside: 'goes on after that',
  'same-agent': 'may go on only after that: it is the same agent',
  'inside-agent': 'may go on only after that: a process that its program has started asks for it',
};

function showRow({ depth, why, key, held, entry, stopped }, blocks) {
  const bucket = depth === 0 ? bucketOf(all.names.get(key) ?? { bucket: 'default' }) : '';
  const mark = `mark${held ? ' held' : ''}${entry.mode === 'shared' ? ' shared' : ''}`;
  const item = make('li', { 'data-why': why, 'aria-level': depth + 1 },
    make('i', { class: mark, 'aria-hidden': 'true' }),
    who(agentOf(entry)),
    held ? ' holds ' : ' waits for ', nameLink(key, 48), bucket,
    entry.mode === 'shared' ? make('span', { class: 'aside' }, ' shared') : '',
    ' ', make('span', { class: 'age' }, 'for ', age(entry.since, held ? {} : { 'data-long': '1' })),
    depth === 0 ? make('strong', { class: 'kind' }, ` · keeps ${plural(blocks, 'request')} waiting`) : '',
    stopped ? make('strong', { class: 'kind stopped' }, ' · is stopped: ', make('code', {}, `kill -CONT ${stopped.join(' ')}`), ' has it go on') : '',
    agentOf(entry)?.silent ? make('strong', { class: 'kind stopped' }, ' · ', silence(agentOf(entry).silent)) : '',
    why ? make('span', { class: 'kind' }, ` · ${{ held: 'hard', ahead: 'soft' }[why] ? `${{ held: 'hard', ahead: 'soft' }[why]}: ` : ''}${KIND[why] ?? ''}`) : '');
  item.style.setProperty('--depth', Math.min(depth, 10));
  return item;
}

function showNameRow({ key, bucket, heldCount, pendingCount, held, waits, holder, owner }) {
  const state = holder ? (holder.mode === 'shared' ? 'shared' : 'held') : pendingCount ? 'changes hands' : 'ready';
  return make('tr', {},
    make('th', { scope: 'row' }, nameLink(key), bucketOf({ bucket })),
    make('td', { 'data-label': 'State' }, make('span', { class: state === 'ready' ? 'aside' : 'state-held' }, state)),
    make('td', { 'data-label': 'Held by' }, holder ? [who(holder.info), heldCount > 1 ? make('span', { class: 'aside' }, ` and ${plural(heldCount - 1, 'other')}`) : '']
      : owner ? make('span', { class: 'aside' }, 'last by ', who(owner.info, { why: false })) : ''),
    make('td', { class: 'number', 'data-label': 'For' }, holder ? age(held) : ''),
    make('td', { class: 'number', 'data-label': 'Waiting' }, pendingCount ? make('span', { class: 'state-wait' }, count(pendingCount)) : ''),
    make('td', { class: 'number', 'data-label': 'Longest wait' }, pendingCount ? age(waits, { 'data-long': '1' }) : ''));
}

// ---- A name ----

const past = { key: undefined, told: undefined, asked: 0, of: undefined };

function showName(key) {
  const name = all.names.get(key) ?? (past.key === key ? past.name : undefined);
  const known = all.names.has(key);
  if (known) past.name = all.names.get(key);
  put(find('name-head'), JSON.stringify([key, name?.name]), [name ? plain(name, 200) : 'This name is not in use.']);
  document.title = name ? `${plain(name, 60)} · navlock` : TITLES.name;
  say(find('name-bucket'), name ? `bucket ${printable(clipped(name.bucket, 60))}` : '');
  const held = known ? name.held : [];
  const pending = known ? name.pending : [];
  say(find('name-sum'), !known ? 'Nobody holds it and nobody waits for it.'
    : `${name.heldCount ? `Held by ${count(name.heldCount)}${name.held[0].mode === 'shared' ? ', shared' : ''}.` : 'Nobody holds it.'} ${name.pendingCount ? `${plural(name.pendingCount, 'request')} ${name.pendingCount === 1 ? 'waits' : 'wait'}.` : 'Nobody waits.'}`);
  const ready = known && held.length === 0 ? name.owned.map((entry) => ({ ...entry, ready: true })) : [];
  const holders = [...held.map((entry) => ({ ...entry, info: agentOf(entry) })), ...ready.map((entry) => ({ ...entry, info: agentOf(entry) }))];
  sync(find('holders'), holders.length ? holders : [{ id: '' }], ({ id }) => id, (entry) => (entry.id ? showHolder(key, entry) : make('li', { class: 'none' }, 'Nobody.')));
  find('queue').hidden = pending.length === 0;
  find('queue-none').hidden = pending.length > 0;
  const shown = pending.slice(0, 200).map((entry, index) => ({ ...entry, place: index + 1, info: agentOf(entry), blocks: blocks(held, pending, index) }));
  sync(find('queue').tBodies[0], shown, ({ id }) => id, (entry) => make('tr', {},
    make('td', { class: 'number', 'data-label': 'Place' }, count(entry.place)),
    make('td', { 'data-label': 'Who' }, who(entry.info, { why: false })),
    make('td', { 'data-label': 'Mode' }, entry.mode),
    make('td', { class: 'number', 'data-label': 'Waits for' }, age(entry.since, { 'data-long': '1' })),
    make('td', { 'data-label': 'Why' }, entry.blocks, entry.info?.why ? [make('span', { class: 'aside' }, ' (', text(entry.info.why, 60), ')')] : '')));
  const rest = known ? name.pendingCount - shown.length : 0;
  find('queue-rest').hidden = rest <= 0;
  say(find('queue-rest'), `and ${count(rest)} more`);
  askPast(key);
}

/** What a request waits for, in words. */
function blocks(held, pending, index) {
  const { mode } = pending[index];
  const conflicts = (other) => mode === 'exclusive' || other.mode === 'exclusive';
  const hard = held.filter(conflicts).length;
  const ahead = pending.slice(0, index).filter(conflicts).length;
  return [hard ? 'hard: it is held' : '', ahead ? `soft: ${count(ahead)} ahead` : ''].filter(Boolean).join(', ');
}

function showHolder(key, entry) {
  const { info } = entry;
  const rows = [];
  const add = (term, ...nodes) => rows.push(make('dt', {}, term), make('dd', {}, nodes));
  add(entry.ready ? 'Ready since' : 'For', age(entry.since));
  add('Mode', entry.mode);
  if (info?.why) add('Why', text(info.why, 200));
  if (info) add('By', text([info.user, info.host].filter(Boolean).join('@'), 80));
  if (info?.silent) add('Its machine', silence(info.silent));
  for (const [label, value] of info?.meta ?? []) add(printable(clipped(label, 40)), text(value, 200));
  if (entry.fencingToken) add('Token', make('span', { class: 'name' }, entry.fencingToken));
  if (entry.taken) add('Taken', plural(entry.taken, 'time'), ' without asking');
  return make('li', { class: entry.ready ? 'none' : undefined },
    make('p', { class: 'head' }, make('i', { class: `mark held${entry.mode === 'shared' ? ' shared' : ''}`, 'aria-hidden': 'true' }), who(info, { place: false, why: false }), entry.ready ? make('span', { class: 'aside' }, ' can take it without asking, until somebody asks') : ''),
    make('dl', {}, rows),
    all.head.canSteal && !entry.ready ? make('button', { type: 'button', class: 'danger', onclick: () => askSteal(key) }, 'Steal…') : '');
}

/** Asks who has held the name, when that may have changed. */
async function askPast(key) {
  const told = `${key} ${JSON.stringify(all.names.get(key) ?? null)}`;
  if (past.told === told || past.busy) return;
  if (past.key !== key) Object.assign(past, { key, of: undefined });
  Object.assign(past, { told, busy: true });
  try {
    const answer = await fetch(`api/history?key=${key}`);
    past.of = answer.ok ? await answer.json() : { spans: [], now: now() };
  } catch {
    past.told = undefined;
  } finally {
    past.busy = false;
  }
  if (past.key === key) showPast();
  // What happens meanwhile is asked for after a moment, however often it does.
  setTimeout(() => route.view === 'name' && askPast(route.key), 300);
}

const END = { released: 'released', stolen: 'stolen', lost: 'lost', ended: 'its holder ended', unseen: 'not seen' };

function showPast() {
  const spans = past.of?.spans ?? [];
  const rows = [...spans].reverse().slice(0, 100);
  find('past').hidden = rows.length === 0;
  sync(find('past').tBodies[0], rows, ({ id, from }) => `${id} ${from}`, (span) => make('tr', {},
    make('td', { 'data-label': 'From' }, clock(span.from)),
    make('td', { class: 'number', 'data-label': 'Held for' }, span.to ? taken(span.to - span.from) : age(span.from)),
    make('td', { class: 'number', 'data-label': 'Waited' }, span.requested ? taken(span.from - span.requested) : ''),
    make('td', { 'data-label': 'Who' }, who(span.who)),
    make('td', { 'data-label': 'Mode' }, span.mode),
    make('td', { 'data-label': 'End' }, make('span', { class: ['stolen', 'lost'].includes(span.how) ? 'state-bad' : undefined },
      span.how ? END[span.how] : 'holds it', span.by ? [' by ', who(span.by, { why: false })] : ''))));
  drawPast();
}

/** How many seconds may be between two lines of the timeline. */
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

/** Draws who held it when: a lane for each, bars that are filled where it was had alone. */
function drawPast() {
  const spans = past.of?.spans ?? [];
  const drawing = find('drawing');
  find('timeline').hidden = spans.length === 0;
  const width = Math.floor(drawing.clientWidth);
  if (spans.length === 0 || width <= 0) return;
  const end = now();
  const lanes = new Map();
  for (const span of [...spans].reverse()) {
    const lane = span.id.split('/')[0];
    if (lanes.size < 12 || lanes.has(lane)) lanes.set(lane, [...(lanes.get(lane) ?? []), span]);
  }
  const order = [...lanes.values()].reverse();
  const shown = order.flat();
  const start = Math.min(...shown.map((span) => span.requested ?? span.from), end - 10_000);
  const narrow = width < 480;
  const [lane, top] = narrow ? [40, 14] : [30, 6];
  const left = narrow ? 0 : 190;
  const right = width - 14;
  const x = (time) => left + ((time - start) / (end - start)) * (right - left);
  const height = top + order.length * lane + 26;
  const foot = top + order.length * lane;
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `A timeline of the last ${plural(shown.length, 'lock')}; the table below says the same.` });
  const step = STEPS.find((seconds) => (end - start) / seconds <= (narrow ? 3_500 : 6_500)) ?? (end - start) / 5_000;
  for (let back = 0; back * 1000 <= end - start; back += step) {
    const at = x(end - back * 1000);
    picture.append(svg('line', { class: 'grid', x1: at, x2: at, y1: top, y2: foot }));
    picture.append(svg('text', { x: at, y: foot + 16, 'text-anchor': back === 0 ? 'end' : 'middle' }, back === 0 ? 'now' : `−${elapsed(back * 1000)}`));
  }
  order.forEach((of, index) => {
    const y = top + index * lane;
    const called = clipped(whoText(of[0].who), 24);
    if (!narrow) picture.append(svg('text', { class: 'who', x: 0, y: y + 19 }, called));
    for (const span of of) {
      const [from, to] = [x(span.from), x(span.to ?? end)];
      if (span.requested) picture.append(svg('line', { class: 'waited', x1: x(span.requested), x2: from, y1: y + 15, y2: y + 15 }));
      const bar = svg('rect', { class: `bar${span.mode === 'shared' ? ' shared' : ''}${span.to ? '' : ' open'}`, x: from, y: y + 7, width: Math.max(2, to - from), height: 16, rx: 2 });
      bar.append(svg('title', {}, `${whoText(span.who)}, ${span.mode}, for ${taken((span.to ?? end) - span.from)}${span.how ? `, ${END[span.how]}` : ''}`));
      picture.append(bar);
      if (['stolen', 'lost'].includes(span.how)) picture.append(svg('path', { class: 'cross', d: `M${to - 5} ${y + 3}l10 24m0-24l-10 24` }));
    }
    if (narrow) picture.append(svg('text', { class: 'who', x: 2, y: y + 2 }, called));
  });
  drawing.replaceChildren(picture);
  const since = past.of.began ? `Seen since ${clock(past.of.began)}. ` : '';
  say(find('timeline').querySelector('figcaption'), `${since}A filled bar is exclusive, an empty one shared; a dashed line is the wait before it, a cross a lock that was stolen or lost.`);
}

// ---- Deadlocks ----

const STEP = {
  held: 'which is held by',
  ahead: 'behind the earlier request of',
  inside: 'and inside that,',
  'same-agent': 'and the same agent, perhaps inside that,',
  'inside-agent': 'and perhaps inside that,',
};

function showDeadlocks() {
  const certain = all.deadlocks.filter((deadlock) => deadlock.certain).length;
  const possible = all.deadlocks.length - certain;
  const parts = [certain ? plural(certain, 'deadlock') : '', possible ? plural(possible, 'possible deadlock') : ''].filter(Boolean);
  say(find('deadlocks-head'), parts.length ? `${parts.join(' and ')}.` : 'No deadlock is known.');
  say(find('deadlocks-more'), parts.length ? 'Shown once it has lasted for a second. Nothing is done about it: end one of them, or have it give up.'
    : 'A deadlock is certain only where it is known which request was made inside which lock; else it is called possible.');
  sync(find('deadlock-list'), all.deadlocks, ({ givesWay }) => givesWay, showDeadlock, ({ members }) => members.map(({ entry }) => agentOf(entry)));
}

function showDeadlock(deadlock) {
  const { remedies } = deadlock;
  return make('article', { class: `cycle${deadlock.certain ? '' : ' possible'}` },
    make('h3', {}, deadlock.certain ? 'Deadlock' : 'Possible deadlock'),
    make('p', {}, deadlock.certain ? 'These wait for each other. None goes on unless one of them ends.'
      : 'These wait for each other, if each keeps its locks until it is granted what it waits for.'),
    make('ol', {}, deadlock.members.map(({ key, held, why, entry }) => make('li', {},
      make('i', { class: `mark${held ? ' held' : ''}`, 'aria-hidden': 'true' }),
      who(agentOf(entry)), held ? ' holds ' : ' waits for ', nameLink(key, 60), make('span', { class: 'aside' }, ` ${entry.mode} for `, age(entry.since)),
      make('span', { class: 'step' }, ', ', STEP[why] ?? ''))),
    make('li', { class: 'step' }, 'the first of these.')),
    deadlock.more ? make('p', { class: 'aside' }, `and ${count(deadlock.more)} more`) : '',
    remedies.length ? make('p', { class: 'aside' }, 'To end it, one of: ', remedies.map(({ line, does }, index) => [index ? ', ' : '', make('code', {}, line), ` (${printable(does)})`])) : '');
}

// ---- Clients and machines ----

function showClients() {
  const rows = new Map();
  for (const client of all.clients.values()) rows.set(`c${client.id}`, { key: `c${client.id}`, pid: client.pid, state: client.state, since: client.since, agents: [] });
  for (const agent of all.agents.values()) {
    const key = agent.client === undefined ? `${agent.host} ${agent.pid}` : `c${agent.client}`;
    if (!rows.has(key)) rows.set(key, { key, pid: agent.pid, state: 'elsewhere', agents: [] });
    rows.get(key).agents.push(agent);
  }
  const shown = [...rows.values()].filter(({ agents, pid, state }) => (filter.bucket === '' || agents.some(({ bucket }) => bucket === filter.bucket))
    && matches(pid, state, ...agents.flatMap((agent) => [...textsOf(agent), agent.bucket])));
  const sum = (row, what) => row.agents.reduce((total, agent) => total + agent[what], 0);
  for (const row of shown) Object.assign(row, { held: sum(row, 'held'), pending: sum(row, 'pending') });
  shown.sort((a, b) => b.pending - a.pending || b.held - a.held || (a.since ?? 0) - (b.since ?? 0));
  say(find('clients-head'), shown.length ? `${plural(shown.length, 'process', 'processes')} ${shown.length === 1 ? 'uses' : 'use'} the locks.` : 'Nobody uses the locks.');
  find('client-table').hidden = shown.length === 0;
  sync(find('client-table').tBodies[0], shown.slice(0, room.clients), ({ key }) => key, showClient);
  more(find('clients-more'), 'clients', shown.length);
}

function showClient({ pid, state, since, held, pending, agents }) {
  const commands = [...new Set(agents.map(program).filter(Boolean))];
  const places = [...new Set(agents.map(({ user, host }) => [user, host].filter(Boolean).map(printable).join('@')).filter(Boolean))];
  const whys = [...new Set(agents.map(({ why }) => why).filter(Boolean))];
  const pids = [...new Set([pid, ...agents.map((agent) => agent.pid)].filter(Boolean))];
  return make('tr', {},
    make('th', { scope: 'row' }, make('span', { class: 'text' }, clipped(commands.join(', ') || 'process', 80)), make('span', { class: 'pid' }, `[${pids.slice(0, 3).join(', ')}]`)),
    make('td', { 'data-label': 'State' }, make('span', { class: state === 'connected' ? 'state-held' : 'state-wait' }, state)),
    make('td', { class: 'number', 'data-label': 'For' }, since ? age(since) : ''),
    make('td', { class: 'number', 'data-label': 'Holds' }, count(held)),
    make('td', { class: 'number', 'data-label': 'Waits for' }, pending ? make('span', { class: 'state-wait' }, count(pending)) : '0'),
    make('td', { 'data-label': 'User and host' }, clipped(places.join(', '), 60)),
    make('td', { 'data-label': 'Buckets' }, [...new Set(agents.map(({ bucket }) => bucket))].slice(0, 5).map((bucket, index) => [index ? ', ' : '', text(bucket, 32)])),
    make('td', { 'data-label': 'Why' }, whys.slice(0, 3).map((why, index) => [index ? '; ' : '', text(why, 60)])));
}

function showMachines() {
  const hosts = new Map();
  for (const agent of all.agents.values()) {
    if (filter.bucket && agent.bucket !== filter.bucket || !matches(...textsOf(agent), agent.bucket)) continue;
    const host = agent.host ?? '';
    if (!hosts.has(host)) hosts.set(host, { host, here: host === all.head.host || agent.client !== undefined, agents: 0, processes: [], held: 0, pending: 0, silent: agent.silent });
    const of = hosts.get(host);
    of.agents += 1;
    // Two brokers can be on a machine.
    if (!agent.silent) of.silent = undefined;
    of.held += agent.held;
    of.pending += agent.pending;
    if (!of.processes.includes(agent.pid)) of.processes.push(agent.pid);
  }
  for (const name of all.names.values()) {
    for (const entry of name.pending) {
      const of = hosts.get(agentOf(entry)?.host ?? '');
      if (of) of.longest = Math.min(of.longest ?? Infinity, entry.since);
    }
  }
  const shown = [...hosts.values()].sort((a, b) => b.pending - a.pending || b.held - a.held || (a.host < b.host ? -1 : 1));
  const elsewhere = shown.filter(({ here }) => !here).length;
  say(find('machines-head'), shown.length === 0 ? 'No machine uses the locks.' : `${plural(shown.length, 'machine')} ${shown.length === 1 ? 'uses' : 'use'} the locks.`);
  say(find('machines-more'), elsewhere ? '' : 'The other machines that share the locks of a store show here as well.');
  sync(find('machine-list'), shown, ({ host }) => host, ({ host, here, processes, held, pending, longest, silent }) => make('li', {},
    make('p', { class: 'head' }, text(host || 'unknown', 60), here ? make('span', { class: 'aside' }, ' (this machine)') : ''),
    silent ? make('p', { class: 'state-bad' }, silence(silent)) : '',
    make('dl', {},
      make('dt', {}, 'Processes'), make('dd', {}, count(processes.length)),
      make('dt', {}, 'Holds'), make('dd', {}, plural(held, 'lock')),
      make('dt', {}, 'Waits for'), make('dd', {}, pending ? [plural(pending, 'lock'), ', the longest for ', age(longest ?? now(), { 'data-long': '1' })] : 'nothing'))));
}

// ---- To steal ----

let asked;

function askSteal(key) {
  const name = all.names.get(key);
  if (!name) return;
  asked = { key, version: all.head.version };
  const victims = name.held.map(agentOf);
  const total = name.heldCount;
  say(find('ask-head'), `Steal ${plain(name, 60)}?`);
  find('ask-text').replaceChildren(
    make('p', {}, total === 1 ? 'It is taken from' : `It is taken from these ${count(total)}, as all hold it:`),
    make('ul', {}, victims.slice(0, 20).map((info) => make('li', {}, who(info, { place: false }), info ? make('span', { class: 'aside' }, ' ', [info.user, info.host].filter(Boolean).map(printable).join('@')) : '')),
      total > 20 ? make('li', {}, `and ${count(total - 20)} more`) : ''),
    make('p', { class: 'quiet' }, 'They are told that it is lost, and may go on working: what they write from now on is for the fencing token to refuse. It is released at once, to whoever waits next.'));
  find('ask-failed').hidden = true;
  say(find('ask-yes'), total === 1 ? `Steal from ${whoText(victims[0])}` : `Steal from ${count(total)}`);
  find('ask').showModal();
  find('ask-no').focus();
}

async function steal() {
  const button = find('ask-yes');
  button.disabled = true;
  let failed;
  try {
    const answer = await fetch('api/steal', { method: 'POST', headers: { 'content-type': 'application/json', 'x-navlock': 'steal' }, body: JSON.stringify(asked) });
    if (!answer.ok) failed = await answer.text();
  } catch {
    failed = 'navlock web does not answer; look whether it was stolen';
  }
  button.disabled = false;
  find('ask-failed').hidden = !failed;
  say(find('ask-failed'), failed ? failed.trim() : '');
  if (!failed) find('ask').close();
}

// ---- Which view ----

const VIEWS = { now: showNow, name: () => showName(route.key), deadlocks: showDeadlocks, clients: showClients, machines: showMachines };
const TITLES = { now: 'navlock', name: 'A name · navlock', deadlocks: 'Deadlocks · navlock', clients: 'Clients · navlock', machines: 'Machines · navlock' };
let route = { view: 'now' };

function read(hash) {
  const [, view, key] = hash.split('/');
  if (view === 'name' && /^\d+$/.test(key)) return { view, key: Number(key) };
  return { view: VIEWS[view] && view !== 'name' ? view : 'now' };
}

function go() {
  const before = route;
  route = read(location.hash);
  for (const view of Object.keys(VIEWS)) find(view).hidden = view !== route.view;
  for (const link of document.querySelectorAll('nav a')) {
    if (link.dataset.view === route.view) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  document.title = TITLES[route.view];
  show();
  // Who has followed a link reads on there.
  if (before.view !== route.view || before.key !== route.key) {
    scrollTo(0, 0);
    find('main').focus({ preventScroll: true });
  }
}

let isDue = false;

function show() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    if (all.head.version === undefined) return;
    VIEWS[route.view]();
    const certain = all.deadlocks.length;
    find('count-deadlocks').hidden = certain === 0;
    say(find('count-deadlocks'), String(certain));
    showBuckets();
  });
}

function showBuckets() {
  const select = find('bucket');
  const buckets = [...new Set([...all.names.values(), ...all.agents.values()].map(({ bucket }) => bucket))];
  if (filter.bucket && !buckets.includes(filter.bucket)) buckets.push(filter.bucket);
  const shown = ['', ...buckets.sort().slice(0, 200)];
  if (select.told === JSON.stringify(shown)) return;
  select.told = JSON.stringify(shown);
  select.replaceChildren(...shown.map((bucket, index) => {
    const option = make('option', {}, bucket === '' && index === 0 ? 'all' : printable(clipped(bucket, 40)));
    option.value = bucket;
    option.selected = bucket === filter.bucket;
    return option;
  }));
}

// ---- What is told ----

const PARTS = { clients: 'id', agents: 'id', names: 'key' };

function take(data, isAnew) {
  skew = data.now - Date.now();
  for (const [part, key] of Object.entries(PARTS)) {
    if (isAnew) all[part].clear();
    for (const one of data[part] ?? []) all[part].set(one[key], one);
    for (const gone of data[`${part}Gone`] ?? []) all[part].delete(gone);
  }
  const known = new Set(all.deadlocks.map(({ givesWay }) => givesWay));
  for (const part of ['tree', 'deadlocks']) all[part] = data[part] ?? all[part];
  const fresh = all.deadlocks.filter(({ givesWay }) => !known.has(givesWay)).length;
  if (fresh && !isAnew) say(find('news'), `${plural(fresh, 'deadlock')} more was found.`);
  if (all.head.version === undefined) filter.bucket = data.bucket ?? '';
  for (const key of ['version', 'broker', 'error', 'leftOut', 'host', 'socket', 'canSteal']) {
    if (key in data) all.head[key] = data[key];
  }
  const state = { running: ['live', 'live'], none: ['off', 'no broker runs'], failed: ['off', 'cannot look'], stopped: ['off', 'the broker is stopped'], unknown: ['wait', 'looking'] }[data.broker];
  pulse(...state);
  if (isAnew) say(find('about'), `The locks at ${printable(all.head.socket)} on ${printable(all.head.host)}.${all.head.canSteal ? ' Locks can be stolen from this page.' : ' Read-only.'}`);
  show();
}

function pulse(is, words) {
  find('pulse').dataset.is = is;
  say(find('pulse-text'), words);
}

let source;

function listen() {
  source?.close();
  source = new EventSource('events');
  source.addEventListener('state', ({ data }) => take(JSON.parse(data), true));
  source.addEventListener('change', ({ data }) => take(JSON.parse(data), false));
  source.addEventListener('error', () => {
    const isOver = source.readyState === EventSource.CLOSED;
    pulse('off', isOver ? 'not let in: open the address that navlock web has printed' : 'navlock web does not answer; trying again');
  });
}

// A browser has few connections for all of its tabs: those that nobody sees give theirs back.
let leaving;
document.addEventListener('visibilitychange', () => {
  clearTimeout(leaving);
  if (document.hidden) {
    leaving = setTimeout(() => {
      source?.close();
      source = undefined;
      pulse('wait', 'paused');
    }, 5_000);
  } else if (!source) listen();
});

find('bucket').addEventListener('change', ({ target }) => { filter.bucket = target.value; show(); });
find('filter').addEventListener('input', ({ target }) => { filter.words = target.value.toLowerCase().split(/\s+/).filter(Boolean); show(); });
document.querySelector('form').addEventListener('submit', (event) => event.preventDefault());
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); find('main').focus(); });
for (const key of Object.keys(room)) find(`${key}-more`).addEventListener('click', () => { room[key] += 200; show(); });
find('ask-no').addEventListener('click', () => find('ask').close());
find('ask-yes').addEventListener('click', steal);
addEventListener('hashchange', go);
addEventListener('resize', () => route.view === 'name' && drawPast());
setInterval(() => {
  tick();
  if (route.view === 'name') drawPast();
}, 1000);
go();
listen();
