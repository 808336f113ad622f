/** The output of `orchd pools`: every pool with its devices and workers. */
import type { PoolView, PoolWorker } from '../../model/http/pools.ts';
import type { Terminal } from '../command.ts';
import { bytesText } from './bytes.ts';
import { durationText } from './duration.ts';
import { codeText } from './job-text.ts';
import { type Colour, oneLine, paint } from './screen.ts';
import { tableText } from './table.ts';

const COLOURS = {
  ok: 'green',
  degraded: 'yellow',
  draining: 'yellow',
  unreachable: 'red',
} as const satisfies Record<PoolView['status'], Colour>;

type Shown = Pick<Terminal, 'isPerson' | 'columns'>;

export const poolsText = (pools: readonly PoolView[], terminal: Shown, now: number): string =>
  pools.map((pool) => poolText(pool, terminal, now)).join('\n\n');

function poolText(pool: PoolView, terminal: Shown, now: number): string {
  const width = terminal.isPerson ? terminal.columns || undefined : undefined;
  return [
    headLine(pool, terminal, now),
    ...(pool.problem === undefined ? [] : [oneLine(pool.problem)]),
    ...(pool.gpus.length === 0
      ? []
      : [tableText(['DEVICE', 'STATE', 'MEMORY'], pool.gpus.map(deviceRow), { width })]),
    pool.workers.length === 0
      ? 'no workers'
      : tableText(
          ['WORKER', 'STATE', 'DEVICE', 'SLOTS', 'MEMORY', 'MODEL', 'WHY'],
          pool.workers.map(workerRow),
          {
            width,
          },
        ),
  ].join('\n');
}

function headLine(pool: PoolView, terminal: Shown, now: number): string {
  const status = paint(COLOURS[pool.status] ?? 'red', pool.status, terminal);
  const facts = [
    status,
    ...(pool.address === null ? [] : [oneLine(pool.address)]),
    ...(pool.region === null ? [] : [`region ${oneLine(pool.region)}`]),
    `heard ${durationText(now - pool.heard_at)} ago`,
    ...(pool.draining === null ? [] : [`drain ordered by ${oneLine(pool.draining.by)}`]),
  ];
  return `${oneLine(pool.pool_id)}: ${facts.join(', ')}`;
}

const deviceRow = ({
  id,
  status,
  reason,
  total_vram,
  available_vram,
}: PoolView['gpus'][number]): string[] => [
  `${id}`,
  status,
  [`${bytesText(available_vram)} of ${bytesText(total_vram)} free`, reason ?? ''].filter(Boolean).join('; '),
];

const workerRow = (worker: PoolWorker): string[] => [
  worker.worker_id,
  worker.status,
  `${worker.gpu}`,
  worker.slots === undefined ? '-' : `${worker.active} of ${worker.slots}`,
  bytesText(worker.vram_used),
  worker.model_ref,
  whyText(worker),
];

function whyText({ error, unusable, why }: PoolWorker): string {
  if (error) return `${codeText(error)}: ${oneLine(error.message)}`;
  return unusable ?? why ?? '';
}
