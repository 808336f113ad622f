/** Calls the `handle` of a module with the end of one job at a time. */
import { within } from '../../kit/within.ts';
import { OrchdError } from '../../model/errors.ts';
import { LineSplitter } from '../../wire/line-splitter.ts';
import { writeInPieces } from '../../wire/pieces.ts';
import type { LargeJson } from '../../wire/route.ts';
import { ModuleProcess, moduleMark, tooLate } from './module-process.ts';
import type { ModuleParts } from './parts.ts';
import type { ModuleSettings } from './settings.ts';

export type HandleOutcome =
  | { readonly is: 'handled' }
  | { readonly is: 'failed'; readonly why: OrchdError }
  /** The module has no `handle`. */
  | { readonly is: 'none' };

/** The JSON text of an ended job. */
export type EndText = string | LargeJson;

export interface EndHandler {
  handle(text: EndText): Promise<HandleOutcome>;
  /** Ends the process of the handler while there is nothing to handle; the next end starts another. */
  rest(): Promise<void>;
  /** Ends the process at once: the job that it handles counts as not handled. */
  stop(): void;
}

export const endHandler = (parts: ModuleParts, settings: ModuleSettings): EndHandler =>
  settings.kind === 'file' ? new FileHandler(parts, settings) : new CommandHandler(parts, settings);

const noAnswer = (): OrchdError => new OrchdError('MODULE_FAILED', 'handle ended without an answer');

const failed = (why: OrchdError | undefined): HandleOutcome => ({ is: 'failed', why: why ?? noAnswer() });

abstract class HandlerProcess {
  readonly #parts: ModuleParts;
  readonly #settings: ModuleSettings;
  protected child: ModuleProcess | undefined;

  constructor(parts: ModuleParts, settings: ModuleSettings) {
    this.#parts = parts;
    this.#settings = settings;
  }

  protected start(argv: readonly string[]): ModuleProcess {
    const { env, scope } = this.#parts;
    const child = new ModuleProcess(
      env,
      this.#settings,
      argv,
      moduleMark(scope, this.#settings.name, 'handle'),
    );
    this.child = child;
    return child;
  }

  protected get argv(): readonly string[] | undefined {
    return this.#settings.handleArgv;
  }

  /** One line: JSON has line feeds only where a blank means the same. */
  protected async write({ input }: ModuleProcess, text: EndText): Promise<void> {
    const pieces = typeof text === 'string' ? [text] : text.pieces;
    const { timers } = this.#parts.env;
    await writeInPieces(input, [...pieces.map(withoutLineFeeds), '\n'], timers);
  }

  /** Ends a process that takes longer than `timeout_sec`. */
  protected async inTime<T>(child: ModuleProcess, answer: Promise<T>): Promise<T | undefined> {
    const { timeoutMs } = this.#settings;
    const late = await within(this.#parts.env.timers, timeoutMs, answer, undefined);
    if (late === undefined) child.kill(tooLate('handle', timeoutMs));
    return late;
  }

  stop(): void {
    this.child?.kill(undefined);
  }
}

/** A command is started for each end, which it reads from standard input; status 0 means that it is handled. */
class CommandHandler extends HandlerProcess implements EndHandler {
  async handle(text: EndText): Promise<HandleOutcome> {
    const { argv } = this;
    if (!argv) return { is: 'none' };
    const child = this.start(argv);
    child.output.resume();
    void this.write(child, text).then(() => child.input.end());
    const isStopped =
      (await this.inTime(
        child,
        child.ended.then((why) => ({ why })),
      )) === undefined;
    const why = await child.ended;
    const isHandled = !isStopped && why === undefined && !child.wasKilled;
    return isHandled ? { is: 'handled' } : failed(why);
  }

  async rest(): Promise<void> {}
}

interface HostAnswer {
  readonly handles?: boolean;
  readonly ok?: boolean;
  readonly error?: string;
}

const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_MESSAGE_CHARS = 300;

/** A file stays loaded in one process while there are ends to handle. */
class FileHandler extends HandlerProcess implements EndHandler {
  #answers: AsyncGenerator<HostAnswer> | undefined;

  async handle(text: EndText): Promise<HandleOutcome> {
    if (!this.#answers) {
      const child = this.start(this.argv ?? []);
      this.#answers = answersOf(child);
      const first = await this.#next(child);
      if (first?.handles !== true) {
        if (first?.handles !== false) return this.#lost(child);
        await this.rest();
        return { is: 'none' };
      }
    }
    const child = this.child as ModuleProcess;
    void this.write(child, text);
    const answer = await this.#next(child);
    if (answer?.ok === true) return { is: 'handled' };
    if (answer?.ok === false)
      return failed(new OrchdError('MODULE_FAILED', String(answer.error).slice(0, MAX_MESSAGE_CHARS)));
    return this.#lost(child);
  }

  async rest(): Promise<void> {
    const { child } = this;
    this.#answers = undefined;
    if (!child) return;
    child.input.end();
    // Until it has ended, a stop can still kill it: what `handle` has left running may keep it busy.
    await this.inTime(
      child,
      child.ended.then(() => true),
    );
    await child.ended;
    this.child = undefined;
  }

  async #next(child: ModuleProcess): Promise<HostAnswer | undefined> {
    const next = await this.inTime(child, (this.#answers as AsyncGenerator<HostAnswer>).next());
    return next?.done ? undefined : next?.value;
  }

  /** The process has ended, or says something else than it should. */
  async #lost(child: ModuleProcess): Promise<HandleOutcome> {
    child.kill(noAnswer());
    this.child = undefined;
    this.#answers = undefined;
    return failed(await child.ended);
  }
}

async function* answersOf({ output }: ModuleProcess): AsyncGenerator<HostAnswer> {
  const splitter = new LineSplitter(MAX_ANSWER_BYTES);
  try {
    for await (const piece of output)
      for (const { bytes } of splitter.add(piece as Buffer)) yield JSON.parse(String(bytes)) as HostAnswer;
  } catch {
    // A host that cannot be understood counts as ended.
  }
}

function withoutLineFeeds(piece: string | Buffer): string | Buffer {
  if (typeof piece === 'string') return piece.replaceAll('\n', ' ');
  return piece.includes(0x0a) ? Buffer.from(piece.toString('latin1').replaceAll('\n', ' '), 'latin1') : piece;
}
