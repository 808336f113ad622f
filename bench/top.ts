/**
 * `node bench/top.ts FILE.cpuprofile [count]`: prints the functions and the files with the most self time in a CPU
 * profile that `BENCH_PROF=folder npm run bench` has written.
 */
import { readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { table } from './kit/table.ts';

interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

const root = join(import.meta.dirname, '..');
/** Frames that are not work: the event loop waits, or the profiler starts. */
const IDLE = new Set(['(idle)', '(program)', '(root)']);

function placeOf(url: string): string {
  if (!url.startsWith('file:')) return url === '' ? 'native' : url;
  return relative(root, fileURLToPath(url)).replace(/^.*node_modules\//, '');
}

function selfTimes({ nodes, samples, timeDeltas }: Profile): {
  byFunction: Map<string, number>;
  byFile: Map<string, number>;
} {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const byFunction = new Map<string, number>();
  const byFile = new Map<string, number>();
  samples.forEach((id, at) => {
    const frame = frames.get(id);
    if (!frame) return;
    const place = placeOf(frame.url);
    const name = frame.functionName || '(anonymous)';
    const spent = timeDeltas[at] ?? 0;
    const label = place === 'native' ? name : `${name}  ${place}:${frame.lineNumber + 1}`;
    byFunction.set(label, (byFunction.get(label) ?? 0) + spent);
    if (!IDLE.has(name)) byFile.set(place, (byFile.get(place) ?? 0) + spent);
  });
  return { byFunction, byFile };
}

function print(title: string, times: ReadonlyMap<string, number>, count: number): void {
  const busy = [...times].filter(([name]) => !IDLE.has(name)).reduce((sum, [, spent]) => sum + spent, 0);
  const top = [...times].sort(([, a], [, b]) => b - a).slice(0, count);
  const rows = top.map(([name, spent]) => [
    name,
    `${(spent / 1000).toFixed(0)} ms`,
    IDLE.has(name) ? '' : `${((100 * spent) / busy).toFixed(1)} %`,
  ]);
  console.log(`${title} (percent of the busy ${(busy / 1000).toFixed(0)} ms)\n${table(rows)}\n`);
}

const [file = '', count = '40'] = process.argv.slice(2);
const { byFunction, byFile } = selfTimes(JSON.parse(readFileSync(file, 'utf8')) as Profile);
print('self time by function', byFunction, Number(count));
print('self time by file', byFile, Number(count));
