/** `orchd chat NAME` */
import { ClientError, type OrchdClient } from '../../client/client.ts';
import { RUN_TYPE } from '../../model/run-jobs.ts';
import { singlePositional, textOf } from '../arguments.ts';
import { type Command, EXIT, type Terminal } from '../command.ts';
import { type AskedApproval, followRun } from '../follow-run.ts';
import { Interrupt } from '../interrupt.ts';
import { SERVER_OPTIONS, usageOf } from '../options.ts';
import { UnknownId } from '../refusal.ts';
import { connect } from '../remote.ts';
import { reportRun, startRun } from '../start-run.ts';
import { messageText } from '../text/message-text.ts';
import { oneLine } from '../text/screen.ts';
import { TypedLines } from '../typed-lines.ts';
import { cancelText } from './cancel.ts';

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
The conversation stays on the server: --session goes on with it, also with an answer that was still under way.`,
    options,
    examples: ['orchd chat librarian', 'orchd chat librarian --session $SESSION'],
  }),
  options,
  async run(args, terminal) {
    const agent = singlePositional(args.positionals, 'name of the agent');
    const client = connect(args);
    const given = textOf(args.values, 'session');
    const session = given ?? (await begin(client, agent));
    const lines = new TypedLines();
    const talk = new Talk({ client, terminal, lines, agent, session });
    try {
      if (given !== undefined) await talk.resume();
      terminal.complain(`orchd: session ${oneLine(session)}; \`orchd chat ${agent} --session ${session}\``);
      await talk.run();
    } finally {
      lines.close();
    }
    return EXIT.ok;
  },
};

/** Creates a session. The agent is looked up first: a wrong name leaves no session behind. */
async function begin(client: OrchdClient, agent: string): Promise<string> {
  const agents = await client.agents();
  if (!agents.some(({ name }) => name === agent))
    throw new UnknownId(`there is no agent "${oneLine(agent)}"`, '`orchd agents` lists the agents.');
  return (await client.sessions.create({ metadata: { channel: 'cli' } })).session_id;
}

interface TalkParts {
  readonly client: OrchdClient;
  readonly terminal: Terminal;
  readonly lines: TypedLines;
  readonly agent: string;
  readonly session: string;
}

class Talk {
  readonly #parts: TalkParts;

  constructor(parts: TalkParts) {
    this.#parts = parts;
  }

  /** Shows what was said last, and follows a run that has not ended. */
  async resume(): Promise<void> {
    const { client, terminal, session, agent } = this.#parts;
    const { jobs } = await client.sessions.get(session);
    const said = await client.sessions.messages(session);
    if (said.length > SHOWN_MESSAGES) terminal.complain(`orchd: the last of ${said.length} messages:`);
    for (const message of said.slice(-SHOWN_MESSAGES)) terminal.print(messageText(message, agent));
    for (const { job_id: id } of jobs) {
      const job = await client.get(id);
      if (job.type === RUN_TYPE) await this.#follow(id);
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
      ...(lines.isPerson && { approve: (call: AskedApproval) => this.#approve(id, call) }),
    });
    interrupt.remove();
    if (end) reportRun(end, terminal);
    else terminal.complain(`\norchd: ${cancelText(await client.cancel(id))}`);
  }

  async #approve(runId: string, { callId, tool, args, hash }: AskedApproval): Promise<void> {
    const { client, terminal, lines } = this.#parts;
    // A line that was typed before the question cannot be its answer.
    lines.drop();
    terminal.status(`allow ${oneLine(tool)} ${oneLine(JSON.stringify(args) ?? '')}? [y/N] `);
    const approve = /^y(es)?$/i.test(((await lines.next()) ?? '').trim());
    try {
      await client.approve(runId, { call_id: callId, approve, ...(hash !== undefined && { hash }) });
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      terminal.complain(`orchd: ${oneLine(error.message)} (${error.code})`);
    }
  }
}
