/**
 * The keeper program: one process for the commands of one brain. It reads orders from its standard input, answers them
 * on its standard output, and does not depend on the brain after that.
 */
import { Keeper } from './keeper.ts';
import {
  type CommandSpec,
  type KeeperReply,
  type OrderHeader,
  OrderReader,
  type PayloadSink,
} from './keeper-wire.ts';
import { layoutOf } from './layout.ts';
import type { StagedFolder } from './token-folder.ts';

let keeper: Keeper | undefined;
let isInputOver = false;

process.on('SIGTERM', () => {
  keeper?.stop();
  endIfIdle();
  if (!keeper) process.exit(0);
});
// A brain has written a kill to the folder of a command.
process.on('SIGUSR2', () => keeper?.lookForKills());
for (const name of ['SIGHUP', 'SIGINT'] as const) process.on(name, () => undefined);
// The brain may be gone before a reply is written.
process.stdout.on('error', () => undefined);

const orders = new OrderReader(begin);
process.stdin.on('error', inputIsOver);
process.stdin.on('data', (bytes: Buffer) => {
  try {
    orders.push(bytes);
  } catch {
    // What follows cannot be understood either. The commands go on.
    process.stdin.destroy();
    inputIsOver();
  }
});
process.stdin.on('end', inputIsOver);

function inputIsOver(): void {
  isInputOver = true;
  orders.end();
  endIfIdle();
}

function endIfIdle(): void {
  if ((isInputOver || keeper?.isStopping) && (!keeper || keeper.isIdle)) process.exit(0);
}

function begin({ id, bytes, folder, registry, order }: OrderHeader): PayloadSink {
  keeper ??= new Keeper(layoutOf(folder), registry, endIfIdle);
  const serving = keeper;
  const answer = (reply: KeeperReply): void => {
    process.stdout.write(`${JSON.stringify({ id, ...reply })}\n`);
  };
  if (serving.isStopping) return withoutPayload(() => answer({ is: 'stopping' }));
  if (order.is === 'kill') return withoutPayload(() => answer(serving.kill(order.name)));
  if (order.is === 'adopt')
    return withoutPayload(() => void serving.adopt(order.name).catch(failed).then(answer));
  return runWithPayload(serving, order.spec, bytes, answer);
}

const withoutPayload = (end: () => void): PayloadSink => ({
  write: () => undefined,
  end,
  abort: () => undefined,
});

/** A payload goes to a file as it arrives, so that the keeper stays small. */
function runWithPayload(
  serving: Keeper,
  spec: CommandSpec,
  payloadBytes: number,
  answer: (reply: KeeperReply) => void,
): PayloadSink {
  let staged: StagedFolder | undefined;
  let problem: unknown;
  const attempt = (work: () => void): void => {
    try {
      if (problem === undefined) work();
    } catch (error) {
      problem = error;
    }
  };
  attempt(() => {
    staged = serving.stage(payloadBytes);
  });
  return {
    write: (bytes) => attempt(() => staged?.writePayload(bytes)),
    end: () => {
      if (problem === undefined && staged) return void serving.run(spec, staged).catch(failed).then(answer);
      staged?.remove();
      answer(failed(problem));
    },
    abort: () => staged?.remove(),
  };
}

/** The message of a system error contains paths of this machine, so only its code is passed on. */
function failed(error: unknown): KeeperReply {
  const { code, message } = error as NodeJS.ErrnoException;
  return { is: 'failed', message: code === undefined ? message : `no place could be made for it (${code})` };
}
