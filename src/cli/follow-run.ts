/** Follows a run of an agent to its end: what its model says goes to standard output, what happens to standard error. */
import { ClientError, type OrchdClient, type RunEvent } from '../client/client.ts';
import { restOf } from '../kit/rest-of-text.ts';
import type { RunView } from '../model/http/runs.ts';
import type { Approval } from '../model/run-jobs.ts';
import type { Terminal } from './command.ts';
import { Answer } from './text/answer.ts';
import { RunProgress } from './text/run-progress.ts';
import { cutTo, oneLine } from './text/screen.ts';

/** The message of a tool that failed is shown up to this length. */
const MAX_WHY_CHARS = 300;

/** The end of a run. A run that was cancelled, or whose job has failed, has a state and an error alone. */
export interface RunEnd extends Pick<RunView, 'reply' | 'steps' | 'trace_id' | 'cost'> {
  readonly run_id: string;
  readonly state?: string;
  readonly error: { readonly code: string; readonly message: string } | null;
}

export interface FollowRunOptions {
  readonly signal: AbortSignal;
  readonly terminal: Terminal;
  /** Only the end is of interest: nothing is printed. */
  readonly asJson: boolean;
  /** Asks a person whether a call may be made, and answers it; without it the command that does so is told. */
  readonly approve?: (call: AskedApproval) => Promise<void>;
}

/** A call of a tool that waits to be allowed. */
export interface AskedApproval {
  readonly callId: string;
  readonly tool: string;
  readonly hash: string | undefined;
  /** Reads what the tool would be called with; what cannot be read now may be readable later. */
  readonly readArgs: () => Promise<ReadArguments>;
}

export type ReadArguments =
  | { readonly ok: true; readonly args: unknown }
  | { readonly ok: false; readonly why: string };

/** Returns the end of the run; undefined if the signal interrupted it. A lost connection is reported on standard error. */
export async function followRun(
  client: OrchdClient,
  runId: string,
  { signal, terminal, asJson, approve }: FollowRunOptions,
): Promise<RunEnd | undefined> {
  let isLost = false;
  const told = new ToldRun(client, terminal, approve);
  const onReconnect = (): void => {
    if (!isLost) void told.interject('orchd: the connection was lost; reconnecting');
    isLost = true;
  };
  const progress = new RunProgress(client, runId, { complain: (text) => void told.interject(text) });
  progress.start();
  try {
    for await (const event of client.runEvents(runId, { signal, onReconnect })) {
      isLost = false;
      progress.heard();
      if (event.event === 'end' || event.event === 'error') {
        const end = endOf(event);
        if (!asJson) await told.end(end);
        return end;
      }
      if (!asJson) await told.tell(event);
    }
    return undefined;
  } finally {
    progress.stop();
  }
}

function endOf({ event, data }: RunEvent): RunEnd {
  if (event === 'end') return data as RunEnd;
  const {
    job_id: runId,
    state,
    code = 'CANCELLED',
    message = 'the run was cancelled',
  } = data as { job_id: string; state: string; code?: string; message?: string };
  return { run_id: runId, state, error: { code, message } };
}

interface StepData {
  readonly step: number;
  readonly jobs: readonly string[];
  /** In a step with calls of tools. */
  readonly calls?: readonly ToldCall[];
}

interface ToldCall {
  readonly call_id: string;
  readonly tool?: string;
  /** `approval`: the call is not made before somebody allows it. */
  readonly event: string;
}

interface ToolEnd extends ToldCall {
  readonly ok: boolean;
  readonly result?: { readonly text?: string };
  readonly message?: string;
}

interface ToldApproval extends ToldCall, Approval {
  readonly hash?: string;
  readonly state: 'waiting' | 'answered';
}

/** Prints a run as it goes. */
class ToldRun {
  readonly #client: OrchdClient;
  readonly #terminal: Terminal;
  readonly #answer: Answer;
  /** The last step that was told: after a lost connection its event comes again. */
  #step = 0;
  /** The call of the model that was asked for last. */
  #asked: string | undefined;
  /** The call of the model that speaks, or has spoken last, and what was printed of it. */
  #call: string | undefined;
  #text = '';

  readonly #approve: FollowRunOptions['approve'];
  /** The calls that a person was asked about: a call that waits is told again after a lost connection. */
  readonly #approvals = new Set<string>();

  constructor(client: OrchdClient, terminal: Terminal, approve: FollowRunOptions['approve']) {
    this.#approve = approve;
    this.#client = client;
    this.#terminal = terminal;
    this.#answer = new Answer(terminal);
  }

  async tell({ event, data }: RunEvent): Promise<void> {
    if (event === 'token') {
      const { t, job_id: call } = data as { t: string; job_id: string };
      await this.#write(call, t);
    } else if (event === 'step') await this.#begin(data as StepData);
    else if (event === 'tool_result') await this.#toolEnded(data as ToolEnd);
    else if (event === 'approval') await this.#approval(data as ToldApproval);
    else if (event === 'below') await this.#below(data as RunEvent);
    else if (event === 'reset') await this.#reset(data as { code?: string });
  }

  /** Prints what was not heard of the reply: not every backend streams, and words may have come while nobody listened. */
  async end({ reply, error }: RunEnd): Promise<void> {
    if (!error && reply !== undefined) {
      const rest = restOf(reply, this.#text);
      if (rest === undefined) await this.#answer.endLine();
      await this.#answer.write(rest ?? reply);
    }
    await this.#answer.endLine();
  }

  async #write(call: string, text: string): Promise<void> {
    if (call !== this.#call) {
      await this.#answer.endLine();
      this.#call = call;
      this.#text = '';
    }
    this.#text += text;
    await this.#answer.write(text);
  }

  async #begin({ step, jobs, calls }: StepData): Promise<void> {
    if (step <= this.#step) return;
    this.#step = step;
    if (!calls) {
      const before = this.#asked;
      this.#asked = jobs[0];
      return before === undefined ? undefined : this.#askedAgain(before);
    }
    for (const call of calls) {
      if (call.event === 'approval' && this.#approve) continue;
      if (call.event === 'approval') await this.#complain(wantText(call));
      else if (call.event === 'branch') await this.#complain(`orchd: asks the branch ${nameOf(call)}`);
      else await this.#complain(`orchd: calls the tool ${nameOf(call)}`);
    }
  }

  /** A call of the model that has failed is made again: the words that were printed of it do not count. */
  async #askedAgain(before: string): Promise<void> {
    const failed = await this.#client.get(before).catch(() => undefined);
    if (failed?.type !== 'inference' || !failed.error) return;
    const discard = this.#call === before ? '; discard the text above' : '';
    const why = oneLine(failed.error.message);
    await this.#complain(`orchd: a call of the model failed (${why}); it is asked again${discard}`);
  }

  async #toolEnded({ ok, result, message, ...call }: ToolEnd): Promise<void> {
    if (ok) return;
    const why = cutTo(oneLine(result?.text ?? message ?? 'it has no result'), MAX_WHY_CHARS);
    await this.#complain(`orchd: the tool ${nameOf(call)} failed: ${why}`);
  }

  /** Of a run below only what a person has to do is told. */
  async #below({ event, data }: Pick<RunEvent, 'event' | 'data'>): Promise<void> {
    if (event !== 'approval') return;
    const asked = data as ToldApproval;
    if (asked.state === 'answered' || this.#approve) return this.#approval(asked);
    if (this.#approvals.has(asked.call_id)) return;
    this.#approvals.add(asked.call_id);
    await this.#complain(wantText(asked));
  }

  async #approval({ state, approved, why, hash, ...call }: ToldApproval): Promise<void> {
    if (state === 'waiting') return this.#ask(call, hash);
    if (state !== 'answered' || approved) return;
    const reason = why === undefined ? '' : `: ${cutTo(oneLine(why), MAX_WHY_CHARS)}`;
    const what = call.tool === undefined ? 'the run' : `the call of the tool ${nameOf(call)}`;
    await this.#complain(`orchd: ${what} was denied${reason}`);
  }

  async #ask({ call_id: callId, tool = callId }: ToldCall, hash: string | undefined): Promise<void> {
    if (!this.#approve || this.#approvals.has(callId)) return;
    this.#approvals.add(callId);
    await this.#answer.endLine();
    await this.#approve({ callId, tool, hash, readArgs: () => this.#argsOf(callId) });
  }

  async #argsOf(callId: string): Promise<ReadArguments> {
    try {
      const { payload } = await this.#client.get(callId, { include: 'payload' });
      const { args } = (payload ?? {}) as { args?: unknown };
      return args === undefined ? { ok: false, why: 'the server does not have it' } : { ok: true, args };
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      return { ok: false, why: `${error.message} (${error.code})` };
    }
  }

  /** With a code the call has failed, which is told when the next one begins. */
  async #reset({ code }: { readonly code?: string }): Promise<void> {
    if (code !== undefined) {
      this.#text = '';
      return;
    }
    const discard = this.#text === '' ? '' : '; discard the text above';
    await this.#complain(`orchd: the model begins its answer again${discard}`);
    this.#text = '';
  }

  /** Tells something in the middle of an answer, which goes on: a file or a pipe gets it without a break. */
  async interject(text: string): Promise<void> {
    if (this.#terminal.isTerminal) await this.#answer.endLine();
    this.#terminal.complain(text);
  }

  /** Standard error may be the same terminal: its lines begin behind the line of the answer. */
  async #complain(text: string): Promise<void> {
    await this.#answer.endLine();
    this.#terminal.complain(text);
  }
}

/** A run that waits at a checkpoint names no tool. */
const wantText = ({ call_id: id, tool }: ToldCall): string =>
  tool === undefined
    ? `orchd: waits before it goes on: orchd approve ${id}`
    : `orchd: wants to call the tool ${oneLine(tool)}: orchd approve ${id}`;

/** The tool of a call or, where it is not known any more, the id of the call. */
const nameOf = ({ tool, call_id: id }: ToldCall): string => oneLine(tool ?? id);
