/** A brain with agents that work in branches and call each other, before a model whose answers are written down. */
import type { TestContext } from 'node:test';
import type { FunctionContext } from '../../src/backends/local/functions.ts';
import type { Tool } from '../../src/index.ts';
import type { RunView } from '../../src/model/http/runs.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type Heard, type Said, ScriptedModel } from '../fakes/scripted-model.ts';
import { placed, within } from './flow-kit.ts';

// biome-ignore lint/suspicious/noExplicitAny: each test knows what it asked for
export type Json = any;

/** By the name of the model: what it says in its n-th turn of a conversation. */
export type Scripts = Readonly<
  Record<string, (turn: number, heard: Heard, context: FunctionContext) => Said | Promise<Said>>
>;

export interface SiteOptions {
  readonly data: string;
  readonly config: string;
  readonly scripts: Scripts;
  readonly tools?: readonly Tool[];
  readonly slots?: number;
}

export class Site {
  readonly brain: HttpBrain;
  /** Every call of a model as it began and ended, as `+job` and `-job`. */
  readonly calls: readonly string[];

  constructor(brain: HttpBrain, calls: readonly string[]) {
    this.brain = brain;
    this.calls = calls;
  }

  async call(
    method: string,
    path: string,
    body?: object,
  ): Promise<{ readonly status: number; readonly body: Json }> {
    const response = await fetch(this.brain.url + path, {
      method,
      ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
  }

  start = (agent: string, run: string, request: object = {}) =>
    this.call('POST', `/v2/agents/${agent}/runs`, { run_id: run, input: 'why?', ...request });

  /** The run once it has ended. */
  async end(run: string): Promise<RunView> {
    await within(this.brain.orchestrator.wait(run));
    return this.view(run);
  }

  view = async (run: string): Promise<RunView> => (await this.call('GET', `/v2/runs/${run}`)).body;

  async run(agent: string, run: string, request: object = {}): Promise<RunView> {
    const { status, body } = await this.start(agent, run, request);
    if (status !== 202) throw new Error(JSON.stringify(body));
    return this.end(run);
  }

  /** The run once `holds` is true of it. */
  async until(run: string, holds: (view: RunView) => boolean): Promise<RunView> {
    const poll = async (): Promise<RunView> => {
      for (;;) {
        const view = await this.view(run);
        if (holds(view)) return view;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    return within(poll());
  }

  /** The questions to people, once there are so many. */
  async asked(count: number): Promise<Json[]> {
    const poll = async (): Promise<Json[]> => {
      for (;;) {
        const { approvals } = (await this.call('GET', '/v2/approvals')).body;
        if (approvals.length === count) return approvals;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    return within(poll());
  }

  /** All jobs of a run, with everything below it. */
  jobs = async (root: string): Promise<Json[]> =>
    (await this.brain.orchestrator.list({ root })).jobs as Json[];
}

export async function site(
  t: TestContext,
  { data, config, scripts, tools = [], slots }: SiteOptions,
): Promise<Site> {
  const calls: string[] = [];
  const model = new ScriptedModel(async (turn, heard, context) => {
    calls.push(`+${context.jobId}`);
    try {
      return (
        (await scripts[context.model ?? '']?.(turn, heard, context)) ?? {
          text: `${context.model} has nothing to say`,
        }
      );
    } finally {
      calls.push(`-${context.jobId}`);
    }
  });
  const backend = model.backend({ models: Object.keys(scripts), ...(slots !== undefined && { slots }) });
  const brain = await httpBrain({ ...placed({ data, config }), backends: [backend], tools, drainMs: 0 });
  t.after(() => brain.stop());
  return new Site(brain, calls);
}
