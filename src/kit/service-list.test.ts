import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Service } from './service.ts';
import { ServiceList } from './service-list.ts';

/** Writes down when it is started and stopped. */
class Noted extends Service {
  readonly #name: string;
  readonly #notes: string[];
  readonly #fails: 'start' | 'stop' | undefined;

  constructor(name: string, notes: string[], fails?: 'start' | 'stop') {
    super();
    this.#name = name;
    this.#notes = notes;
    this.#fails = fails;
  }

  protected async onStart(): Promise<void> {
    this.#notes.push(`start ${this.#name}`);
    if (this.#fails === 'start') throw new Error(`${this.#name} does not start`);
  }

  protected async onStop(): Promise<void> {
    this.#notes.push(`stop ${this.#name}`);
    if (this.#fails === 'stop') throw new Error(`${this.#name} does not stop`);
  }
}

test('services are started in order and stopped in reverse', async () => {
  const notes: string[] = [];
  const list = new ServiceList([new Noted('a', notes), new Noted('b', notes)]);
  await list.start();
  await list.stop();
  assert.deepEqual(notes, ['start a', 'start b', 'stop b', 'stop a']);
});

test('where one does not start, those before it are stopped and those behind it are never started', async () => {
  const notes: string[] = [];
  const list = new ServiceList([
    new Noted('a', notes),
    new Noted('b', notes, 'start'),
    new Noted('c', notes),
  ]);
  await assert.rejects(list.start(), /b does not start/);
  assert.deepEqual(notes, ['start a', 'start b', 'stop b', 'stop a']);
});

test('where one does not stop, the others are stopped all the same, and the failure is told', async () => {
  const notes: string[] = [];
  const list = new ServiceList([new Noted('a', notes), new Noted('b', notes, 'stop')]);
  await list.start();
  await assert.rejects(list.stop(), /b does not stop/);
  assert.deepEqual(notes, ['start a', 'start b', 'stop b', 'stop a']);
});

test('a stop during a start starts nothing further', async () => {
  const notes: string[] = [];
  const held = Promise.withResolvers<void>();
  class Slow extends Noted {
    protected override async onStart(): Promise<void> {
      await super.onStart();
      await held.promise;
    }
  }
  const list = new ServiceList([new Slow('a', notes), new Noted('b', notes)]);
  const starting = list.start();
  const stopping = list.stop();
  held.resolve();
  await Promise.all([starting, stopping]);
  assert.deepEqual(notes, ['start a', 'stop a']);
});
