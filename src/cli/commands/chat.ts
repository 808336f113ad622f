/** `orchd chat NAME` */
import { ClientError, type OrchdClient, type RunRequest } from '../../client/client.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';
import { singlePositional, textOf } from '../arguments.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { type AskedApproval, followRun } from '../follow-run.ts';
import { Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { listedBy, UnknownId } from '../refusal.ts';
import { connect } from '../remote.ts';
import { reportRun, startRun } from '../start-run.ts';
import { messageText } from '../text/message-text.ts';
import { oneLine } from '../text/screen.ts';
import { TypedLines } from '../typed-lines.ts';
import { cancelText } from './cancel.ts';
import { SESSION_LIST } from './sessions.ts';

/** A conversation that goes on is shown from here. */
const SHOWN_MESSAGES = 10;

const options = {
  session: { type: 'string', value: 'SESSION', help: 'go on with this conversation' },
  ...SERVER_OPTIONS,
} as const;

export const chat: Command = {
  usage: usageOf({
    call: 'chat NAME [OPTIONS]',
    about: `A conversation with the agent NAME: each line that you type is answered, with all that was said before. A call of a tool
that must be allowed is asked for here. Ctrl-C ends an answer; Ctrl-D, or Ctrl-C while nothing is answered, leaves.
The conversation stays on the server: --session goes on with it, also with an answer that was still under way.
Lines of a file or a pipe are answered one after another; the exit code is 1 if one of them has no answer.`,
    options,
    examples: [
      'orchd chat librarian',
      'orchd chat librarian --session $SESSION',
      'orchd chat librarian < questions.txt',
    ],
  }),
  options,
  async run(args, terminal) {
    const agent = singlePositional(args.positionals, 'name of the agent');
    const client = connect(args);
    const given = textOf(args.values, 'session');
    await checkAgent(client, agent);
    const session = given ?? (await begin(client));
    const lines = new TypedLines();
    const talk = new Talk({ client, terminal, lines, agent, session });
    try {
      if (given !== undefined) await talk.resume();
      terminal.complain(`orchd: session ${oneLine(session)}; this goes on with it later:`);
      terminal.complain(`orchd chat ${agent} --session ${session}`);
      await talk.run();
    } finally {
      lines.close();
    }
    return talk.isUnanswered && !lines.isPerson ? EXIT.problems : EXIT.ok;
  },
};

/** Comes before anything else: a wrong name leaves no session behind, and shows no conversation. */
async function checkAgent(client: OrchdClient, agent: string): Promise<void> {
  const agents = await client.agents();
  if (!agents.some(({ name }) => name === agent))
    throw new UnknownId(`there is no agent "${oneLine(agent)}"`, '`orchd agents` lists the agents.');
}

const begin = async (client: OrchdClient): Promise<string> =>
  (await client.sessions.create({ metadata: { channel: 'cli' } })).session_id;

interface TalkParts {
  readonly client: OrchdClient;
  readonly terminal: Terminal;
  readonly lines: TypedLines;
  readonly agent: string;
  readonly session: string;
}

class Talk {
  readonly #parts: TalkParts;
  #isUnanswered = false;

  constructor(parts: TalkParts) {
    this.#parts = parts;
  }

  /** Whether a line has no answer: its run was refused, or has failed. */
  get isUnanswered(): boolean {
    return this.#isUnanswered;
  }

  /** Shows what was said last, and follows the runs that have not ended, each after what it was asked. */
  async resume(): Promise<void> {
    const { client, terminal, session, agent } = this.#parts;
    const { jobs } = await listedBy(SESSION_LIST, client.sessions.get(session));
    const said = await client.sessions.messages(session);
    if (said.length > SHOWN_MESSAGES) terminal.complain(`orchd: the last of ${said.length} messages:`);
    for (const message of said.slice(-SHOWN_MESSAGES)) terminal.print(messageText(message, agent));
    for (const { job_id: id } of jobs) {
      const { type, payload } = await client.get(id, { include: 'payload' });
      if (type !== RUN_TYPE) continue;
      const { input, messages } = (payload ?? {}) as RunRequest;
      const asked = messages ?? [{ role: 'user', content: input ?? '' }];
      for (const message of asked) terminal.print(messageText(message, agent));
      await this.#follow(id);
    }
  }

  async run(): Promise<void> {
    const { terminal, lines } = this.#parts;
    for (;;) {
      terminal.status('you: ');
      const line = await lines.next();
      if (line === undefined) break;
      if (line.trim() !== '') await this.#say(line);
    }
    terminal.status();
  }

  /** A refused run, such as one over a limit, does not end the conversation. */
  async #say(input: string): Promise<void> {
    const { client, terminal, agent, session } = this.#parts;
    try {
      const { run_id: id } = await startRun(client, agent, { input, session_id: session }, terminal);
      await this.#follow(id);
    } catch (error) {
      if (!(error instanceof ClientError) || error.status === 0) throw error;
      this.#isUnanswered = true;
      terminal.complain(`orchd: ${oneLine(error.message)} (${error.code})`);
    }
  }

  async #follow(id: string): Promise<void> {
    const { client, terminal, lines } = this.#parts;
    const interrupt = new Interrupt();
    const { signal } = interrupt;
    const end = await followRun(client, id, {
      signal,
      terminal,
      asJson: false,
      ...(lines.isPerson && { approve: (call: AskedApproval) => this.#approve(id, call, signal) }),
    });
    interrupt.remove();
    if (end?.error) this.#isUnanswered = true;
    if (end) reportRun(end, terminal);
    else terminal.complain(`\norchd: ${cancelText(await client.cancel(id))}`);
  }

  async #approve(runId: string, call: AskedApproval, signal: AbortSignal): Promise<void> {
    const { client, terminal } = this.#parts;
    const { callId, hash } = call;
    const approve = await this.#isAllowed(call, signal);
    if (signal.aborted) return;
    try {
      await client.approve(runId, { call_id: callId, approve, ...(hash !== undefined && { hash }) });
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      terminal.complain(`orchd: ${oneLine(error.message)} (${error.code})`);
      if (error.code === 'FORBIDDEN') terminal.complain(`orchd: it waits for: orchd approve ${callId}`);
    }
  }

  /** The arguments are shown as a whole: nobody can allow what was cut off, or what could not be read. */
  async #isAllowed({ tool, readArgs }: AskedApproval, signal: AbortSignal): Promise<boolean> {
    const { terminal } = this.#parts;
    for (;;) {
      const read = await readArgs();
      if (signal.aborted) return false;
      if (read.ok) {
        terminal.complain(
          `orchd: wants to call the tool ${oneLine(tool)} ${oneLine(JSON.stringify(read.args))}`,
        );
        return /^y(es)?$/i.test(await this.#ask('allow it? [y/N] ', signal));
      }
      const why = oneLine(read.why);
      terminal.complain(
        `orchd: wants to call the tool ${oneLine(tool)}, and it cannot be read with what: ${why}`,
      );
      const answer = await this.#ask('deny it, or read it again? [d/R] ', signal, 'd');
      if (signal.aborted || /^d(eny)?$/i.test(answer)) return false;
    }
  }

  /** The answer of a person; `atEnd` at the end of the input. A line that was typed before is no answer. */
  async #ask(question: string, signal: AbortSignal, atEnd = ''): Promise<string> {
    const { terminal, lines } = this.#parts;
    lines.drop();
    terminal.status(question);
    return (await lines.next(signal))?.trim() ?? atEnd;
  }
}
