// One process of one subject: measures the cases that it is given, and prints their figures.

import process from 'node:process';

import { measure } from './cases.mjs';
import { subjects } from './subjects.mjs';

const [name, scale, ...cases] = process.argv.slice(2);
process.env.BENCH_SUBJECT = name;
const subject = await subjects[name].open();
const figures = {};
const size = Number(scale) * (subjects[name].scale ?? 1);
for (const title of cases) figures[title] = await measure(title, subject, size);
await subject.close?.();
console.log(`\n@figures ${JSON.stringify(figures)}`);
process.exit(0);
