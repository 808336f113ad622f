/**
 * Ids by tenant, each in the order of its last use. When a common table is full, the least recently used id of the tenant
 * that has the most gives way: a tenant that fills the table displaces its own entries, not those of others.
 */
const NO_IDS: ReadonlySet<string> = new Set();

export class RecentIds {
  readonly #byTenant = new Map<string, Set<string>>();

  /** Adds an id, or marks it as the last used. */
  use(tenant: string, id: string): void {
    const ids = this.#byTenant.get(tenant);
    if (!ids) {
      this.#byTenant.set(tenant, new Set([id]));
      return;
    }
    ids.delete(id);
    ids.add(id);
  }

  delete(tenant: string, id: string): void {
    const ids = this.#byTenant.get(tenant);
    ids?.delete(id);
    if (ids?.size === 0) this.#byTenant.delete(tenant);
  }

  of(tenant: string): ReadonlySet<string> {
    return this.#byTenant.get(tenant) ?? NO_IDS;
  }

  clear(): void {
    this.#byTenant.clear();
  }

  /** The id that gives way; undefined if there is none. */
  oldestOfLargest(): string | undefined {
    return this.ofLargest().values().next().value;
  }

  /** The ids of the tenant that has the most, the least recently used first. */
  ofLargest(): ReadonlySet<string> {
    let largest: ReadonlySet<string> = NO_IDS;
    for (const ids of this.#byTenant.values()) if (ids.size > largest.size) largest = ids;
    return largest;
  }
}
