/** Random walks of an engine through the modes of governance: what holds after every step, whatever happened before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { EngineKit } from '../../../test/fakes/engine-kit.ts';
import { walk, walkCommands } from '../../../test/fakes/engine-walk.ts';
import { causeName } from '../../model/causes.ts';
import { DEFAULT_POLICY } from '../../model/governance.ts';
import type { Change } from '../../model/records.ts';
import type { Step } from '../engine/engine.ts';
import type { EngineView } from '../turn.ts';

const governance = {
  ...DEFAULT_POLICY,
  modes: {
    ...DEFAULT_POLICY.modes,
    ALERT: { perMinute: { others: 2 } },
    DEGRADED: { perMinute: { others: 0 } },
    RECOVERY: { running: { others: 1 } },
  },
  rules: [{ name: 'no-u', effect: 'deny', types: ['u'], modes: ['ALERT', 'RECOVERY'] }],
} as const;

const COMMANDS = walkCommands(150, Array<'mode'>(5).fill('mode'));

const walkModes = (check: (kit: EngineKit, step: Step, before: string) => void): void =>
  fc.assert(
    fc.property(COMMANDS, (commands) => {
      walk(commands, check, ({ state }: EngineView) => state.governance.mode, { governance });
    }),
    { numRuns: 150 },
  );

/** An attempt that begins; orders to end one that has not begun are changes of it too. */
const isStart = (change: Change): boolean => change.kind === 'attempt' && causeName(change.cause) === 'claim';

const started = ({ changes }: Step, kit: EngineKit): string[] =>
  changes.flatMap((change) =>
    change.kind === 'attempt' && isStart(change) ? [kit.job(change.after?.job ?? '').ask.spec.type] : [],
  );

test('[ADR-7] in a mode that lets nothing start nothing starts, and what a rule forbids starts in none of its modes', () => {
  let count = 0;
  walkModes((kit, step, before) => {
    const { mode } = kit.engine.state.governance;
    const types = started(step, kit);
    count += types.length;
    if (before === mode && (mode === 'LOCKDOWN' || mode === 'DEGRADED')) assert.deepEqual(types, []);
    if (before === mode && (mode === 'ALERT' || mode === 'RECOVERY')) assert.ok(!types.includes('u'), mode);
  });
  assert.ok(count > 100, `${count} starts: the walks show little`);
});

test('[ADR-7] no more start in a minute than the mode lets, whatever other modes come in between', () => {
  walkModes((kit) => {
    let inAlert = 0;
    let isAlert = false;
    for (const { change } of kit.log) {
      if (change.kind === 'governance') isAlert = change.after?.mode === 'ALERT';
      if (isAlert && isStart(change)) inAlert++;
    }
    // The time of a walk is three seconds at most.
    assert.ok(inAlert <= 2, `${inAlert} starts`);
  });
});

test('[ADR-7] no mode wakes the brain without end', () => {
  walkModes((kit) => {
    for (let ticks = 0; kit.engine.nextWake() <= kit.now; ticks++) {
      assert.ok(
        ticks < 20,
        `still due after ${ticks} ticks, in the mode ${kit.engine.state.governance.mode}`,
      );
      kit.step({ type: 'tick' });
    }
  });
});
