// The tables: rows are cases, columns are subjects in a runtime. A goal is a ratio to another column
// of the same run, or a figure in microseconds.

const column = (title, subject, runtime = 'node') => ({ title, subject, runtime });
const OURS = 'navlock';
const ratio = (most, to) => ({ most, to });
const micros = (most) => ({ most });

const node = [
  column(OURS, 'navlock'),
  column('Node', 'native'),
  column('async-mutex', 'async-mutex'),
  column('async-lock', 'async-lock'),
  column('map of promises', 'map'),
  column('hop', 'hop'),
];
const lockManagers = ['async-mutex', 'async-lock', 'map of promises', 'hop'];

const js = (title, name, rest = {}) => ({ title, case: name, ...rest });

/** What the lock managers of all runtimes are asked for. */
export const rows = [
  js('sequential, one name', 'sequential'),
  js('1,000 names at once, each', 'names', { without: ['hop'] }),
  js('1,000 shared at once, each', 'shared', { without: lockManagers }),
  js('10,000 waiters on one name: request, each', 'waiters', { figure: 'request', without: ['hop'] }),
  js('10,000 waiters on one name: drain, each', 'waiters', { figure: 'drain', without: ['hop'] }),
  js('10,000 aborted one by one, each', 'aborts', { without: lockManagers }),
  js('`query()`, 1,000 held', 'query', { without: lockManagers }),
];
const goals = {
  'sequential, one name': ratio(0.4, 'Node'),
  '1,000 names at once, each': ratio(0.15, 'Node'),
  '1,000 shared at once, each': ratio(0.3, 'Node'),
  '10,000 waiters on one name: request, each': micros(3),
  '10,000 waiters on one name: drain, each': micros(3),
  '10,000 aborted one by one, each': micros(5),
  '`query()`, 1,000 held': micros(200),
};

/** It asks the broker each time. */
const asking = column('`NAVLOCK_DELEGATE=0`', 'asking');
const betweenProcesses = [
  column(OURS, 'machine'),
  asking,
  column('bare broker', 'bare'),
  column('ioredis', 'ioredis'),
  column('proper-lockfile', 'proper-lockfile'),
];
const oneCpu = '1';

/** A name that a process takes again and again is its own until another asks for it. */
const owned = ['node', 'deno', 'bun'].map((runtime) => ({
  id: `owned, ${runtime}`,
  title: `Between processes, a name that nobody else wants, ${runtime[0].toUpperCase()}${runtime.slice(1)}, one CPU`,
  cpus: oneCpu,
  columns: [column(OURS, 'machine', runtime), column('within one process', 'navlock', runtime), { ...asking, runtime }],
  rows: [js('sequential, one name', 'sequential', { goal: ratio(1.15, 'within one process') })],
}));

export const tables = [
  {
    id: 'node',
    title: 'One process, Node',
    columns: node,
    rows: rows.map((row) => ({ ...row, goal: goals[row.title] })),
  },
  {
    id: 'others',
    title: 'One process, Deno and Bun (which has no locks of its own)',
    columns: [column('navlock, Deno', 'navlock', 'deno'), column('Deno', 'native', 'deno'), column('navlock, Bun', 'navlock', 'bun')],
    rows,
  },
  {
    id: 'workers, one CPU',
    title: 'From worker to worker, one CPU',
    cpus: oneCpu,
    columns: [column(OURS, 'navlock'), column('Node', 'native')],
    rows: [js('handover', 'workers', { goal: ratio(0.7, 'Node') })],
  },
  {
    id: 'workers',
    title: 'From worker to worker, all CPUs',
    columns: [column(OURS, 'navlock'), column('Node', 'native')],
    rows: [js('handover', 'workers')],
  },
  ...owned,
  {
    id: 'processes, one CPU',
    title: 'Between processes, Node, one CPU',
    cpus: oneCpu,
    columns: betweenProcesses,
    rows: [
      js('acquire and release', 'acquire', { goal: { over: 6, to: 'bare broker' } }),
      js('handover', 'handover', { without: ['ioredis'] }),
    ],
  },
  {
    id: 'processes',
    title: 'Between processes, Node, all CPUs',
    columns: betweenProcesses,
    rows: [js('acquire and release', 'acquire'), js('handover', 'handover', { without: ['ioredis'] })],
  },
  {
    id: 'machines',
    title: 'Between machines, Node, one node of etcd with its data in memory',
    columns: [column(OURS, 'machines'), column('lock service', 'lock service')],
    rows: [js('acquire and release', 'acquire'), js('handover', 'handover', { without: ['lock service'] })],
  },
];
