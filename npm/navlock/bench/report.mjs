// The figures for people, and for docs/figures.md.

/** A table for a terminal. */
export function text(tables, figures) {
  return tables
    .map((table) => {
      const rows = body(table, figures).map((cells) => cells.map((cell, at) => (at === 0 ? cell.padEnd(44) : cell.padStart(18))).join(''));
      return [`\n${table.title}, µs`, ...rows].join('\n');
    })
    .join('\n');
}

export function markdown(tables, figures, { rounds, date, machine, versions, command, after }) {
  const parts = [
    `Microseconds: medians of ${rounds} interleaved rounds, each in a process of its own, with the smallest and the largest.`,
    ...tables.map((table) => {
      const [head, ...rows] = body(table, figures);
      const line = (cells) => `| ${cells.join(' | ')} |`;
      return `**${table.title}**\n\n${[line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')}`;
    }),
    ...(after ? [after] : []),
    `Measured with \`${command}\`: ${date}, ${machine}; ${versions}.`,
  ];
  return `${parts.join('\n\n')}\n`;
}

function body(table, figures) {
  const hasGoals = table.rows.some(({ goal }) => goal);
  const head = ['', ...table.columns.map(({ title }) => title), ...(hasGoals ? ['goal', 'reached'] : [])];
  const rows = table.rows.map((row) => {
    const of = (title) => figures.get(`${table.id} ${row.title} ${title}`);
    const cells = table.columns.map(({ title }) => (of(title) ? spread(of(title)) : '–'));
    return [row.title, ...cells, ...(hasGoals ? verdict(row.goal, of, table.columns[0].title) : [])];
  });
  return [head, ...rows];
}

function verdict(goal, of, ours) {
  if (!goal || !of(ours)) return ['', ''];
  const mine = median(of(ours));
  if (!goal.to) return [`≤ ${goal.most} µs`, mine <= goal.most ? 'yes' : 'no'];
  if (!of(goal.to)) return ['', ''];
  const theirs = median(of(goal.to));
  if (goal.over) return [`≤ ${goal.over} µs over ${goal.to}`, `${mine - theirs <= goal.over ? 'yes' : 'no'} (${micros(mine - theirs)} over)`];
  return [`≤ ${goal.most} × ${goal.to}`, `${mine / theirs <= goal.most ? 'yes' : 'no'} (${(mine / theirs).toFixed(2)} ×)`];
}

function spread(all) {
  return `${micros(median(all))} (${micros(Math.min(...all))}–${micros(Math.max(...all))})`;
}

export function median(all) {
  const sorted = [...all].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function micros(figure) {
  return figure >= 100 ? figure.toFixed(0) : figure >= 10 ? figure.toFixed(1) : figure.toFixed(2);
}
