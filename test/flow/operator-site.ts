/** A brain whose pool managers and executors follow a script, and what an operator asks it over HTTP. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { Backend } from '../../src/core/ports/backend.ts';
import { type HttpBrain, httpBrain } from '../fakes/http-brain.ts';
import { type Behaviour, ScriptedExecutor } from '../golden/maker/executor.ts';
import { GB, ScriptedPools } from '../golden/maker/pools.ts';
import { placed } from './flow-kit.ts';

const EXECUTOR: Backend['info'] = {
  name: 'exec',
  kind: 'test',
  slots: 4,
  types: ['t'],
  models: undefined,
  labels: {},
  paid: true,
  keepsResults: true,
  registry: 'first',
};

// biome-ignore lint/suspicious/noExplicitAny: answers of many routes, which the tests read at once
export type Answer = any;

export class OperatorSite {
  readonly behaviours: Record<string, Behaviour> = {};
  readonly pools = new ScriptedPools((info) => new ScriptedExecutor(info, this.behaviours));
  readonly #t: TestContext;
  readonly #data: string;
  brain!: HttpBrain;

  constructor(t: TestContext, data: string) {
    this.#t = t;
    this.#data = data;
  }

  async open(): Promise<void> {
    const backends = [new ScriptedExecutor(EXECUTOR, this.behaviours)];
    const config = 'pools: {prewarm: false}\n';
    const options = { backends, managers: this.pools, drainMs: 0 };
    const brain = await httpBrain({ ...placed({ data: this.#data, config }), ...options });
    this.#t.after(() => brain.stop());
    this.brain = brain;
  }

  async call(method: string, path: string, body?: object, status = [200, 201, 202]): Promise<Answer> {
    const init = { method, ...(body && { headers: JSON_BODY, body: JSON.stringify(body) }) };
    const answer = await fetch(`${this.brain.url}${path}`, init);
    const text = await answer.text();
    assert.ok(status.includes(answer.status), `${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  async row(id: string): Promise<unknown[]> {
    const { status, wished_workers, spawned_workers } = await this.call('GET', `/workers/pool/${id}`);
    return [status, wished_workers, spawned_workers];
  }

  /** Carries out the starts that were ordered, so many of them by now. */
  async started(count: number): Promise<void> {
    await this.pools.ordered(count);
    for (const order of this.pools.starts) this.pools.show(order);
  }

  async until(isSo: () => Promise<boolean>): Promise<void> {
    while (!(await isSo())) await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

export const MODEL = {
  model_id: 'm',
  model_ref: 'demo:m',
  size_bytes: 1,
  vram_bytes: GB,
  context_length: 4096,
};
const JSON_BODY = { 'content-type': 'application/json' };
