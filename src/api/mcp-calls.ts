/**
 * The calls that MCP tools make on the brain itself: each is a request to a route of the HTTP API, in the name of the
 * caller. So it passes the same checks of role, tenant, form and admission as if it had come over HTTP.
 */
import type { Timers } from '../kit/env/env.ts';
import { parseInSlices } from '../kit/json-parser.ts';
import { inSlices, ONE_TURN_BYTES } from '../kit/slices.ts';
import type { JobPage, JobView, SubmittedTask } from '../model/http/jobs.ts';
import type { AgentList, AgentView, ApprovalList, RunView, StartedRun } from '../model/http/runs.ts';
import { roleRefusal } from '../wire/access-gate.ts';
import type { ToolBrain } from '../wire/mcp/tool.ts';
import type { Call, LargeJson, Route } from '../wire/route.ts';

interface Asked {
  readonly params?: Call['params'];
  readonly query?: unknown;
  readonly body?: unknown;
}

export class RouteCalls implements ToolBrain {
  readonly #routes: ReadonlyMap<string, Route>;
  readonly #call: Call;
  readonly #timers: Timers;

  /** `call` is the request of the MCP client; `routes` are those of the API by their operation. */
  constructor(routes: ReadonlyMap<string, Route>, call: Call, timers: Timers) {
    this.#routes = routes;
    this.#call = call;
    this.#timers = timers;
  }

  submit: ToolBrain['submit'] = (body) => this.#ask<SubmittedTask>('submitJob', { body });

  get: ToolBrain['get'] = (id) => this.#ask<JobView>('getJob', { params: { id } });

  list: ToolBrain['list'] = (query) => this.#ask<JobPage>('listJobs', { query });

  cancel: ToolBrain['cancel'] = (id) => this.#ask<JobView>('cancelJob', { params: { id } });

  agents = async (): Promise<readonly AgentView[]> => (await this.#ask<AgentList>('listAgents', {})).agents;

  startRun: ToolBrain['startRun'] = (name, body) =>
    this.#ask<StartedRun>('startRun', { params: { name }, body });

  run: ToolBrain['run'] = (id) => this.#ask<RunView>('getRun', { params: { id } });

  approvalPage: ToolBrain['approvalPage'] = (query) => this.#ask<ApprovalList>('listApprovals', { query });

  approve: ToolBrain['approve'] = (id, body) => this.#ask<RunView>('approveCall', { params: { id }, body });

  /** The body of the answer; a route that refuses throws. */
  async #ask<T>(operation: string, { params = {}, query = {}, body }: Asked): Promise<T> {
    const route = this.#routes.get(operation);
    if (!route) throw new Error(`there is no operation ${operation}`);
    const refusal = roleRefusal(this.#call.identity, route);
    if (refusal) throw refusal;
    const answer = await route.handle({ ...this.#call, params, query, body });
    if ('error' in answer) throw answer.error;
    if ('stream' in answer) throw new Error(`${operation} answers with a stream`);
    return (answer.json === undefined ? answer.body : await this.#parsed(answer.json)) as T;
  }

  async #parsed(json: string | LargeJson): Promise<unknown> {
    const text = typeof json === 'string' ? json : textOf(json);
    return text.length <= ONE_TURN_BYTES ? JSON.parse(text) : inSlices(parseInSlices(text), this.#timers);
  }
}

function textOf(json: LargeJson): string {
  try {
    return json.pieces.map(String).join('');
  } finally {
    json.release();
  }
}
