/** A consumer of Node whose jobs say what they do. Each one that begins is a line of the ledger. */
import { appendFileSync, existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { Consumer, type JobContext } from '../../src/consumer/index.ts';
import type { ConsumerProgram, Told } from './consumer-programs.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as ConsumerProgram;

function note(word: string, { job }: JobContext): void {
  const line = `${word} ${job.token} ${process.pid}\n`;
  appendFileSync(options.ledger, line);
  process.stdout.write(line);
}

async function handle(told: Told, context: JobContext): Promise<unknown> {
  note('began', context);
  if ('lasts' in told) await setTimeout(told.lasts);
  if (told.do === 'note') note('ended', context);
  else if (told.do === 'block') {
    const end = performance.now() + told.ms;
    while (performance.now() < end);
  } else if (told.do === 'die') {
    if (!existsSync(told.unless)) process.kill(process.pid, 'SIGKILL');
  } else if (told.do === 'fail') {
    throw Object.assign(new Error('no luck'), { code: 'NO_LUCK', retriable: false });
  } else if (told.do === 'say') {
    for (const word of told.words) context.emit(word);
    context.used({ prompt_tokens: 3, completion_tokens: 4 });
    note('said', context);
    while (told.until !== undefined && !existsSync(told.until)) await setTimeout(20);
    note('ended', context);
  } else if (told.do === 'large') return 'x'.repeat(told.chars);
  else if (told.do === 'hold') {
    while (!existsSync(told.until)) {
      await setTimeout(20);
      if (!context.signal.aborted) continue;
      note('stopped', context);
      return undefined;
    }
  }
  return { pid: process.pid };
}

await new Consumer({ ...options, types: ['work'], waitMs: 2000, handler: handle }).run();
process.stdout.write('left\n');
