/** Prices, budgets, and what waits at a limit. */
import type { PlantedBug } from './catchers.ts';

export const MONEY_BUGS: readonly PlantedBug[] = [
  {
    name: 'tokens of the cache are priced twice',
    file: 'src/model/price.ts',
    find: '    countOf(tokens.input) * input +\n',
    replace: '    countOf(tokens.input + tokens.cacheRead) * input +\n',
    catcher: 'prices',
    says: /✖ every count has its own rate, and is charged once/,
  },
  {
    name: 'an unknown outcome is settled as zero',
    file: 'src/core/attempts/bill.ts',
    find: 'cost: bill.reserved, basis',
    replace: 'cost: 0, basis',
    catcher: 'starts',
    says: /✖ counts an attempt whose outcome is unknown/,
  },
  {
    name: "a child is outside of its root's budget",
    file: 'src/core/limits/gates.ts',
    find: 'scopes.root(tenant, ancestors?.[0] ?? ask.id)',
    replace: 'scopes.root(tenant, ask.id)',
    catcher: 'starts',
    says: /✖ of a tree of jobs holds for all branches together/,
  },
  {
    name: "a call of a run is outside of its root's budget",
    file: 'src/core/admission/children.ts',
    find: 'const spec = { ...child.spec, parent_id: ask.id, ',
    replace: 'const spec = { ...child.spec, ',
    catcher: 'starts',
    says: /✖ of a run holds for the calls that it waits for/,
  },
  {
    name: 'the level of a budget is lost at a restart',
    file: 'src/core/limits/gates.ts',
    find: '    if (spent) gate.resume(spent);\n',
    replace: '',
    catcher: 'spent',
    says: /✖ goes on after a restart: running, reserved and settled/,
  },
  {
    name: 'what an end has cost is stored in another commit than the end',
    file: 'src/core/engine/engine.ts',
    find: '    storeSpent(turn);\n',
    replace: "    if (!turn.changes.some(({ kind }) => kind === 'attempt')) storeSpent(turn);\n",
    catcher: 'spent',
    says: /✖ is stored in the commit of the end that it was used for/,
  },
  {
    name: 'jobs that wait at a gate are woken out of order',
    file: 'src/core/queue/gate-group.ts',
    find: '  return isEarlier(a, b);\n',
    replace: '  return isEarlier(b, a);\n',
    catcher: 'gates',
    says: /✖ W1: leave it in order/,
  },
  {
    name: 'the breaker counts errors of the caller',
    file: 'src/core/attempts/provider-fault.ts',
    find: '  retriable || PROVIDER_CODES.has(code);\n',
    replace: '  retriable || PROVIDER_CODES.has(code) || true;\n',
    catcher: 'breaker',
    says: /✖ an error of the caller is no failure of it/,
  },
];
